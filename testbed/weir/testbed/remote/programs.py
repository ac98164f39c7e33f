# SPDX-License-Identifier: Apache-2.0
"""The programs that the helper runs on a host: their output, signals, and their end.

Runs on the host with Python 3.9 and its standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable

from weir.testbed.remote.changes import GRACE_S, PATH, Record, Refused, start_time

TAIL_BYTES = 4096
CHUNK_BYTES = 65536
PR_SET_PDEATHSIG = 1


class Running:
    """A program that runs, and what it wrote that nobody has yet."""

    def __init__(self, process: subprocess.Popen[bytes], pipe: int, tells_lines: bool) -> None:
        """Take a process; `pipe` has its stderr, or all its output if it `tells_lines`."""
        self.process, self.pipe, self.tells_lines = process, pipe, tells_lines
        self.tail = self.pending = b""
        self.open = True

    def close(self) -> None:
        """Close the pipe."""
        if self.open:
            os.close(self.pipe)
            self.open = False


class Programs:
    """Starts programs in a folder; `say` sends an event, `note` writes a record to the journal."""

    def __init__(self, folder: Path, say: Callable[[Record], None], note: Callable[[Record], Any]) -> None:
        """Begin with none."""
        self.folder, self.say, self.note = folder, say, note
        self.running: dict[str, Running] = {}

    def start(self, request: Record) -> int:
        """Start a program as its own session; returns its process id. Raises Refused.

        `stdout` names a new file in the folder; with `lines` each line of its output becomes an event.
        `stdin` is its text. A program that writes a file larger than `limit_bytes` is ended by the kernel.
        """
        name, argv = request["name"], request["argv"]
        stdout, tells_lines = request.get("stdout"), bool(request.get("lines"))
        if name in self.running:
            raise Refused(f"a program named {name} runs already")
        path = shutil.which(argv[0], path=PATH)
        if path is None:
            raise Refused(f"{argv[0]} is not installed")
        if stdout is not None and (Path(stdout).name != stdout or stdout in (".", "..")):
            raise Refused(f"{stdout} is not a name of a file in the work folder")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        pipe, end = os.pipe2(os.O_CLOEXEC)
        opened = [end]
        try:
            with tempfile.TemporaryFile(dir=self.folder) as source:
                source.write((request.get("stdin") or "").encode())
                source.seek(0)
                target = end
                if not tells_lines:
                    target = os.open(self.folder / stdout if stdout else os.devnull, flags, 0o600)
                    opened.append(target)
                process = subprocess.Popen(
                    [path, *argv[1:]],
                    stdin=source,
                    stdout=target,
                    stderr=end,
                    cwd=self.folder,
                    env={**os.environ, "PATH": PATH},
                    preexec_fn=child_of(os.getpid(), request.get("limit_bytes")),
                )
        except (OSError, subprocess.SubprocessError) as error:
            os.close(pipe)
            raise Refused(f"{argv[0]} cannot be started: {error}") from error
        finally:
            for descriptor in opened:
                os.close(descriptor)
        self.running[name] = Running(process, pipe, tells_lines)
        began = start_time(process.pid)
        try:
            if began is not None:
                self.note({"kind": "program", "name": name, "pid": process.pid, "began": began})
        except Refused:
            self.stop(name, signal.SIGKILL)
            raise
        return process.pid

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a program; nothing if it has ended."""
        if name in self.running:
            with contextlib.suppress(ProcessLookupError):
                self.running[name].process.send_signal(number)

    def stop(self, name: str, number: signal.Signals) -> Record:
        """End a program, by SIGKILL if it has not ended after a while; returns how it ended."""
        process = self._find(name).process
        for wanted in (number, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, wanted)
            try:
                process.wait(GRACE_S)
                break
            except subprocess.TimeoutExpired:
                continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it has started itself
        return self.ended(name)

    def stderr(self, name: str) -> str:
        """The end of what a program has written to stderr so far."""
        found = self._find(name)
        self.read(name)
        return found.tail.decode(errors="replace")

    def ended(self, name: str) -> Record:
        """Forget a program that has ended; returns how."""
        self.read(name)
        found = self.running.pop(name)
        found.close()
        if found.pending:
            self.say({"event": "lines", "name": name, "lines": [found.pending.decode(errors="replace")]})
        tail = found.tail.decode(errors="replace")
        return {"name": name, "code": found.process.poll(), "stderr": tail}

    def report_ended(self) -> None:
        """Say which programs have ended by themselves."""
        for name in [name for name, one in self.running.items() if one.process.poll() is not None]:
            self.say({"event": "ended", **self.ended(name)})

    def pipes(self) -> dict[int, str]:
        """The programs by the descriptors that have their output."""
        return {one.pipe: name for name, one in self.running.items() if one.open}

    def read(self, name: str) -> None:
        """Take what a program has written: keep its end, and tell its lines."""
        found = self.running[name]
        while found.open and select.select([found.pipe], [], [], 0)[0]:
            chunk = os.read(found.pipe, CHUNK_BYTES)
            if not chunk:
                found.close()
                return
            found.tail = (found.tail + chunk)[-TAIL_BYTES:]
            if found.tells_lines:
                *lines, found.pending = (found.pending + chunk).split(b"\n")
                if lines:
                    texts = [line.decode(errors="replace") for line in lines]
                    self.say({"event": "lines", "name": name, "lines": texts})

    def _find(self, name: str) -> Running:
        if name not in self.running:
            raise Refused(f"no program {name} runs; valid: {', '.join(self.running) or 'none'}")
        return self.running[name]


def child_of(parent: int, limit_bytes: Any) -> Callable[[], None]:
    """What a program's process does before it becomes the program: it dies with its parent."""
    libc = ctypes.CDLL(None)

    def become_child() -> None:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if limit_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return become_child
