# SPDX-License-Identifier: Apache-2.0
"""The faults: each acts on one process of a trial, and says in words what it did."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.chaos.processes import Process, threads_of
from weir.topo.tools import find_tool

STOPPED_S = 5.0
CUT_S = 2.0
_BURN = "import time; end = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The trial's file system and source of randomness, which faults need besides the process."""

    disk: Path
    draw: random.Random


Fault = Callable[[Process, Surroundings], str]


def kill(process: Process, _: Surroundings) -> str:
    """SIGKILL."""
    os.kill(process.pid, signal.SIGKILL)
    return "killed"


def stop(process: Process, _: Surroundings) -> str:
    """SIGSTOP for five seconds."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    with contextlib.suppress(ProcessLookupError):  # somebody lost patience with it
        os.kill(process.pid, signal.SIGCONT)
    return f"stopped for {STOPPED_S:g} s"


def starve(process: Process, _: Surroundings) -> str:
    """The process only gets time that no other wants, and others want all of it for five seconds."""
    for thread in threads_of(process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    command = [sys.executable, "-S", "-E", "-c", _BURN.format(seconds=STOPPED_S)]
    cores = len(os.sched_getaffinity(0))
    others = [subprocess.Popen(command, start_new_session=True) for _ in range(cores)]
    for other in others:
        other.wait()
    return f"starved for {STOPPED_S:g} s"


def fill_disk(_: Process, around: Surroundings) -> str:
    """Fill the trial's file system; in half of the trials there is space again after five seconds."""
    filler, again = around.disk / "filler", around.draw.random() < 0.5
    written = 0
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                written += file.write(bytes(1 << 16))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    if not again:
        return f"disk full ({written >> 20} MB) to the end"
    time.sleep(STOPPED_S)
    filler.unlink()
    return f"disk full ({written >> 20} MB) for {STOPPED_S:g} s"


def cut_link(process: Process, around: Surroundings) -> str:
    """Take an interface of the process's network namespace down; in half of the trials up again after 2 s."""
    if not (links := _links(process)):
        return "nothing to cut: no link of the trial in its network namespace"
    link, again = around.draw.choice(links), around.draw.random() < 0.5
    _in_namespace(process, "link", "set", link, "down")
    if not again:
        return f"{link} down to the end"
    time.sleep(CUT_S)
    _in_namespace(process, "link", "set", link, "up")
    return f"{link} down for {CUT_S:g} s"


def with_links(processes: Sequence[Process]) -> list[Process]:
    """Those processes in whose network namespace the trial has links."""
    found: dict[int, bool] = {}
    reached = []
    for process in processes:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            namespace = _namespace(process.pid)
            if namespace not in found:
                found[namespace] = bool(_links(process))
            if found[namespace]:
                reached.append(process)
    return reached


def _links(process: Process) -> list[str]:
    """The links of a process's network namespace; none of our own one, whose links are not the trial's."""
    if _namespace(process.pid) == _namespace("self"):
        return []
    shown = _in_namespace(process, "-brief", "link", "show").splitlines()
    return sorted({line.split()[0].split("@")[0] for line in shown if line} - {"lo"})


def _namespace(pid: int | str) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def _in_namespace(process: Process, *words: str) -> str:
    """Run ip(8) in a process's network namespace; empty if that has ended."""
    done = subprocess.run(
        [*_enter(process), find_tool("ip"), *words], capture_output=True, text=True, check=False
    )
    return done.stdout


def _enter(process: Process) -> Sequence[str]:
    own, its = (Path(f"/proc/{pid}/ns/user").stat().st_ino for pid in ("self", process.pid))
    user = ["--user", "--preserve-credentials"] if own != its else []
    return [find_tool("nsenter"), "--target", str(process.pid), "--net", *user, "--"]


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "stop": stop,
    "starve": starve,
    "fill the disk": fill_disk,
    "cut a link": cut_link,
}
