# SPDX-License-Identifier: Apache-2.0
"""Boots a kernel as an ordinary process: its arguments, its end, and what its console said.

The guest's root is that of the host (hostfs), and its init is a Python module of this package. Its time
starts at 0 and advances only while everything in it waits.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from weir.kernel import probe_init
from weir.kernel.errors import KernelError

PROBE_MEMORY_MB = 128
_libc = ctypes.CDLL(None)
# personality(2)
_ADDR_NO_RANDOMIZE = 0x0040000
_CURRENT = 0xFFFFFFFF
_PATIENCE_S = 120.0
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_STARTED = re.compile(r"^\[ *\d+\.\d+\] ?")


@dataclass(frozen=True)
class FirstBoot:
    """The version and the congestion controls that a kernel reported."""

    version: str
    congestion_controls: tuple[str, ...]
    entropy: str | None
    """Random bytes that it drew."""


def guest_command(
    program: Path,
    init: Sequence[str],
    *,
    memory_mb: int,
    state: Path,
    writable: bool,
    seed: int = 0,
    realtime_ns: int = 0,
) -> list[str]:
    """The command that boots `program` and runs `init` as its first process.

    `state` is a folder for the process's files; `writable` lets the guest write wherever this user may. Its
    console is on stdout. All entropy of the guest follows from `seed`, if the kernel has weir's patch for
    that; `realtime_ns` is its wall clock when it boots. Raises KernelError for characters that a kernel's
    command line cannot have.
    """
    for word in (*init, str(state)):
        if '"' in word or "\n" in word:
            raise KernelError(f"{word!r}: a kernel's command line has no quotes or new lines")
    first, *rest = (f'"{word}"' if re.search(r"\s", word) else word for word in init)
    return [
        str(program),
        "time-travel=inf-cpu",
        f"time-travel-start={realtime_ns}",
        f"weir.seed={seed}",
        # Faster than ptrace, which is the only way of kernels before 6.16.
        "seccomp=auto",
        "norandmaps",
        f"mem={memory_mb}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        "rootflags=/",
        "rw" if writable else "ro",
        "con=null",
        "con0=null,fd:1",
        f"uml_dir={state}/",
        "umid=guest",
        "noreboot",
        "quiet",
        f"init={first}",
        "--",
        *rest,
    ]


def guest_environment(memory_mb: int) -> dict[str, str]:
    """The environment of a kernel; in TMPDIR it creates the file of its memory, and unlinks it at once."""
    room = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0
    folder = "/dev/shm" if room > memory_mb * 1_048_576 else tempfile.gettempdir()
    return os.environ | {"TMPDIR": folder}


def start_kernel(
    command: Sequence[str], console: IO[Any], *, memory_mb: int, state: Path, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start the process of a `guest_command`; it leads a session, and its panic leaves no core file.

    Its addresses are not random, if this machine allows that: the guest's memory is larger by the random gap
    between its program and its heap, and Linux sizes hash tables and TCP's buffers by the memory.
    """
    # Without preexec_fn, with which Popen forks: beside gRPC's threads most children end before they run it.
    with _without_random_addresses():
        process = subprocess.Popen(
            command,
            cwd=state,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            pass_fds=pass_fds,
            env=guest_environment(memory_mb),
            start_new_session=True,
        )
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
    return process


@contextlib.contextmanager
def _without_random_addresses() -> Iterator[None]:
    """Programs that this thread starts in the block have no random addresses, if this machine allows that."""
    before = _libc.personality(_CURRENT)
    _libc.personality(before | _ADDR_NO_RANDOMIZE)
    try:
        yield
    finally:
        _libc.personality(before)


def first_boot(program: Path, folder: Path, log: Path) -> FirstBoot:
    """Boot a new kernel and ask it for its version and congestion controls. Raises KernelError.

    `folder` is for temporary files, of which none is left; `log` is only named in errors.
    """
    with tempfile.TemporaryDirectory(prefix="boot-", dir=folder) as scratch:
        return _probe(program, Path(scratch), log)


def _probe(program: Path, folder: Path, log: Path) -> FirstBoot:
    answer, state = folder / "answer.json", folder / "guest"
    state.mkdir()
    init = [sys.executable, "-S", "-E", probe_init.__file__, str(answer)]
    with (folder / "console").open("w+") as console:
        command = guest_command(program, init, memory_mb=PROBE_MEMORY_MB, state=state, writable=True)
        process = start_kernel(command, console, memory_mb=PROBE_MEMORY_MB, state=state)
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise KernelError(f"the new kernel did not boot within {_PATIENCE_S:g} s; log: {log}") from None
        finally:
            process.kill()
            process.wait()
        console.seek(0)
        said = console.read()
    try:
        found = json.loads(answer.read_text())
    except (OSError, ValueError):
        raise KernelError(
            f"the new kernel does not boot: {why_it_ended(said) or 'its console is empty'}"
        ) from None
    return FirstBoot(found["version"], tuple(found["congestion_controls"]), found.get("entropy"))


def why_it_ended(console: str) -> str:
    """The reason of a kernel's end in the text of its console: its panic, else its last line, if any."""
    panic = _PANIC.search(console)
    if panic is not None:
        return f"kernel panic: {panic[1]}"
    lines = [_STARTED.sub("", line).strip() for line in console.splitlines()]
    return next((line for line in reversed(lines) if line), "")
