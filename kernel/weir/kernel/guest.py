# SPDX-License-Identifier: Apache-2.0
"""Runs one program in a guest, on a kernel whose time is virtual; its first process is `guest_init`."""

from __future__ import annotations

import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weir.kernel import guest_init
from weir.kernel.boot import guest_command, start_kernel, why_it_ended
from weir.kernel.errors import KernelError

STILL_S = 300.0
"""Wall time after which a guest whose time stands still is ended."""
_OUT_OF_MEMORY = re.compile(r"Kernel panic - not syncing: Out of memory|Out of memory: Killed process")


@dataclass(frozen=True)
class GuestJob:
    """The program of a guest."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    folder: str
    """The only folder of the host that the guest can write to."""
    realtime_ns: int
    """The guest's wall clock when it boots."""


class Stopped(Exception):
    """The caller's descriptor became readable; the guest has been ended."""


@dataclass(frozen=True)
class Outputs:
    """Receivers of a guest's output."""

    on_line: Callable[[str], None]
    """Of each line of the program's stdout, and of the lines of `guest_init` except for the last."""
    on_error: Callable[[str], None]
    """Of each line of its stderr."""
    console: Path
    """The file of the kernel's messages."""


def run_guest(
    program: Path,
    job: GuestJob,
    outputs: Outputs,
    *,
    memory_mb: int,
    state: Path,
    seed: int = 0,
    stop: int | None = None,
    still_s: float = STILL_S,
) -> int:
    """Run the job on the kernel `program`; returns the exit code of the job's program.

    `state` is an empty folder, outside of the job's, for the files of the guest's process; `seed` is that of
    all its entropy (see `guest_command`). Raises KernelError
    if the guest ends otherwise (panic, no memory on the host, killed) or its time stands still for `still_s`
    seconds; Stopped once the descriptor `stop` is readable. The guest has ended in each case.
    """
    description = state / "job.json"
    description.write_text(json.dumps(asdict(job)))
    init = [sys.executable, "-S", "-E", guest_init.__file__, str(description)]
    command = guest_command(
        program,
        init,
        memory_mb=memory_mb,
        state=state,
        writable=False,
        seed=seed,
        realtime_ns=job.realtime_ns,
    )
    errors_read, errors_write = os.pipe()
    lines_read, lines_write = os.pipe()
    channels = [f"con1=null,fd:{errors_write}", f"con2=null,fd:{lines_write}"]
    at = command.index("--")
    try:
        with outputs.console.open("wb") as console:
            process = start_kernel(
                [*command[:at], *channels, *command[at:]],
                console,
                memory_mb=memory_mb,
                state=state,
                pass_fds=[errors_write, lines_write],
            )
    finally:
        os.close(errors_write)
        os.close(lines_write)
    try:
        code = _follow(lines_read, errors_read, outputs, stop, still_s)
        process.wait()
    finally:
        process.kill()
        process.wait()
        os.close(lines_read)
        os.close(errors_read)
    said = outputs.console.read_text(errors="replace")
    if _OUT_OF_MEMORY.search(said):
        raise KernelError(f"{memory_mb} MB are too little memory for the guest; give it more with --memory")
    if code is None:
        why = why_it_ended(said) or f"exit code {process.returncode}, and its console is empty"
        raise KernelError(f"the kernel ended: {why}; its console: {outputs.console}")
    return code


def _follow(lines: int, errors: int, outputs: Outputs, stop: int | None, still_s: float) -> int | None:
    """Pass on all lines until both pipes end; returns the exit code that the guest reported."""
    code: int | None = None
    parts = {lines: b"", errors: b""}
    poller = select.poll()
    for descriptor in (*parts, *([] if stop is None else [stop])):
        poller.register(descriptor, select.POLLIN)
    moved = time.monotonic()
    while parts:
        ready = poller.poll(max(0.0, moved + still_s - time.monotonic()) * 1000)
        if not ready:
            raise KernelError(f"the guest's time stood still for {still_s:g} s: a process in it never waits")
        for descriptor, _ in ready:
            if descriptor == stop:
                raise Stopped
            received = os.read(descriptor, 65536)
            *whole, rest = (parts.pop(descriptor) + received).split(b"\n")
            if received:
                parts[descriptor] = rest
            else:
                poller.unregister(descriptor)
                whole += [rest] if rest else []
            for line in (text.decode(errors="replace") for text in whole):
                if descriptor == errors:
                    outputs.on_error(line)
                    continue
                moved = time.monotonic()
                report = report_of(line)
                if "exit" in report:
                    code = int(report["exit"])
                else:
                    outputs.on_line(line)
    return code


def report_of(line: str) -> dict[str, Any]:
    """The report of `guest_init` in a line; empty for any other line."""
    try:
        report = json.loads(line)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}
