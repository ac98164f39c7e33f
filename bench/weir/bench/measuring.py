# SPDX-License-Identifier: Apache-2.0
"""Code shared by the benchmarks: their programs, and weir.topo's sandbox with the hosts of a testbed."""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from weir.topo.hosts import HostPort
from weir.topo.process import run_tool
from weir.topo.sandbox import inside, run_in_sandbox
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort
from weir.topo.tools import find_own_program

ROOT = Path(__file__).resolve().parents[3]
_INSIDE_VARIABLE = "WEIR_BENCH_INSIDE"
_WARM_UP_S = 0.7


def bench_program(name: str) -> Path:
    """Path of a program built for the benchmarks."""
    folder = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return Path(folder) / "release" / name


def switch_ports(hosts: Iterable[HostPort]) -> list[SwitchPort]:
    """The switch's end of each host's link, without delay or rate."""
    return [SwitchPort(host.switch_port, host.switch_interface) for host in hosts]


def sending_s(seconds: float) -> float:
    """Time that the sources of `rates` have to send for a measurement of so many seconds."""
    return seconds + 2 * _WARM_UP_S


def rates(
    sources: Iterable[subprocess.Popen[Any]], receivers: Sequence[HostPort], pid: int, seconds: float
) -> tuple[float, float, float]:
    """Measure for some seconds while packet sources send, which have just started; then wait for their end.

    Returns the frames per second that arrive at the receivers, and the processor time that the forwarder
    `pid` spends on each, in ns: all its threads, and the one of them that spends most. The latter says what
    it could do on a machine where every thread has a core. Raises RuntimeError if a source fails.
    """

    def arrived() -> int:
        return sum(map(_received, receivers))

    time.sleep(_WARM_UP_S)
    start, before, spent_before = time.monotonic(), arrived(), _threads_ns(pid)
    time.sleep(seconds)
    end, after, spent = time.monotonic(), arrived(), _threads_ns(pid)
    for source in sources:
        if source.wait() != 0:
            raise RuntimeError(f"packet-source ended with code {source.returncode}")
    each_ns = [ns - spent_before.get(thread, 0) for thread, ns in spent.items()]
    frames = after - before
    return frames / (end - start), sum(each_ns) / max(frames, 1), max(each_ns) / max(frames, 1)


def _received(host: HostPort) -> int:
    """Frames that the interface of a host has received, as the kernel counts."""
    shown = run_tool("ip", "-n", host.namespace, "-s", "-json", "link", "show", "dev", host.interface)
    return int(json.loads(shown)[0]["stats64"]["rx"]["packets"])


def _threads_ns(pid: int) -> dict[str, int]:
    """Processor time of each thread of a process so far, by the thread's id."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return {thread.parent.name: int(thread.read_text().split()[0]) for thread in threads}


def run(
    module: str,
    options: Callable[[list[str]], argparse.Namespace],
    main: Callable[[argparse.Namespace, StopToken], int],
) -> None:
    """Run `main` of `module` with the command line's `options` inside the sandbox, and exit with its code.

    A wrong command line and a switch that is not built are said before there is a sandbox.
    """
    chosen = options(sys.argv[1:])
    if os.environ.get(_INSIDE_VARIABLE):
        inside(lambda stop: main(chosen, stop))
    find_own_program("weir-switch")
    os.environ[_INSIDE_VARIABLE] = "1"
    sys.exit(run_in_sandbox(module, sys.argv[1:]))
