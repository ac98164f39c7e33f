# SPDX-License-Identifier: Apache-2.0
"""Code shared by the benchmarks: their programs, and weir.topo's sandbox with the hosts of a testbed."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from weir.topo.hosts import HostPort
from weir.topo.process import run_tool
from weir.topo.sandbox import inside, run_in_sandbox
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort
from weir.topo.tools import find_own_program

ROOT = Path(__file__).resolve().parents[3]
_INSIDE_VARIABLE = "WEIR_BENCH_INSIDE"


def bench_program(name: str) -> Path:
    """Path of a program built for the benchmarks."""
    folder = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    return Path(folder) / "release" / name


def switch_ports(hosts: Iterable[HostPort]) -> list[SwitchPort]:
    """The switch's end of each host's link, without delay or rate."""
    return [SwitchPort(host.switch_port, host.switch_interface) for host in hosts]


def received(host: HostPort) -> int:
    """Frames that the interface of a host has received, as the kernel counts."""
    shown = run_tool("ip", "-n", host.namespace, "-s", "-json", "link", "show", "dev", host.interface)
    return int(json.loads(shown)[0]["stats64"]["rx"]["packets"])


def threads_ns(pid: int) -> dict[str, int]:
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
