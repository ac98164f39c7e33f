# SPDX-License-Identifier: Apache-2.0
"""Changes a host for an experiment, runs programs on it, and puts everything back however it ends.

Runs on the host with Python 3.9 and its standard library. stdin has a request a line, stdout an answer or
event a line, both JSON. It ends, and undoes all, at the request `end`, when stdin ends, at SIGTERM, SIGINT
and SIGHUP, after its time limit, and when no line has come for `watchdog_s`. Every change is in a journal on
the disk before it is made, so that the next start undoes what `kill -9` has left.

Argument: a JSON object with work_folder (or null), watchdog_s, limit_s.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Any

from weir.testbed.remote.changes import MAKE, PLAN, UNDO, Record, Refused, described
from weir.testbed.remote.files import services
from weir.testbed.remote.programs import Programs

_IN_USE = "another weir uses this host now, or it is two hosts of one testbed; valid: one at a time"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Ended(Exception):
    """The helper ends now; the text is the reason."""


class Journal:
    """The changes that are not yet undone, on the disk; one helper at a time for each network namespace."""

    def __init__(self, folder: Path) -> None:
        """Open it. Raises Refused if the folder is not safe, cannot be written, or has another helper."""
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat()
        except OSError as error:
            raise Refused(f"work folder {folder}: {error.strerror}") from error
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise Refused(
                f"work folder {folder}: others could change it; "
                f"valid: a folder of uid {os.geteuid()} that nobody else can write"
            )
        # The boot too: what is changed is gone with it, and numbers of namespaces begin anew.
        space = Path("/proc/self/ns/net").stat().st_ino
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self.path = folder / f"journal-{boot}-{space}"
        self.end_path = folder / f"ended-{boot}-{space}"
        try:
            self.lock = os.open(folder / f"lock-{space}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Refused(f"work folder {folder}: {error.strerror}") from error
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Refused(_IN_USE) from error
        # Other users and work folders have another lock file. A name of this kind is the network namespace's.
        self.name = socket.socket(socket.AF_UNIX)
        try:
            self.name.bind("\0weir-helper")
        except OSError as error:
            raise Refused(_IN_USE if error.errno == errno.EADDRINUSE else str(error)) from error
        for old in folder.glob("journal-*"):
            if not old.name.startswith(f"journal-{boot}-"):
                old.unlink()

    def add(self, record: Record) -> int:
        """Write a change that is about to be made, so that it outlives this process. Raises Refused.

        Returns the length of the journal before it.
        """
        line = json.dumps(record).encode() + b"\n"
        before = self.path.stat().st_size if self.path.exists() else 0
        try:
            with self.path.open("ab", buffering=0) as file:
                written = file.write(line)
                os.fsync(file.fileno())
                if written != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.truncate(self.path, before)
            raise Refused(f"journal in {self.folder}: {error.strerror}; nothing was changed") from error
        return before

    def forget(self, before: int) -> None:
        """Take back the last change, which was not made."""
        os.truncate(self.path, before)

    def records(self) -> list[Record]:
        """All changes that are not undone, oldest first; a torn last line was not followed by a change."""
        records: list[Any] = []
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        for line in lines:
            with contextlib.suppress(ValueError):
                records.append(json.loads(line))
        return [record for record in records if isinstance(record, dict)]

    def undo(self) -> tuple[list[str], list[str]]:
        """Undo all, newest first; returns what was undone, and what was not, with the reason."""
        undone: list[str] = []
        left: list[str] = []
        kept: list[Record] = []
        for record in reversed(self.records()):
            try:
                note = UNDO[record["kind"]](record)
            except (Refused, OSError, KeyError, ValueError) as error:
                left.append(f"{described(record)}: {error}")
                kept.append(record)
                continue
            undone.append(described(record))
            if note is not None:
                left.append(note)
        if not kept:
            self.path.unlink(missing_ok=True)
        return undone, left

    def note_end(self, note: Record) -> None:
        """Leave word of an end that nobody may have heard of."""
        with contextlib.suppress(OSError):
            self.end_path.write_text(json.dumps(note))

    def previous_end(self) -> Any:
        """How the helper before this one ended, if it left word; once."""
        try:
            note = json.loads(self.end_path.read_text())
            self.end_path.unlink()
        except (OSError, ValueError):
            return None
        return note


class Helper:
    """The loop: requests, children, deadlines; `run` returns when all is undone."""

    def __init__(self, journal: Journal, watchdog_s: float, limit_s: float) -> None:
        """Begin to count the time."""
        self.journal, self.watchdog_s, self.limit_s = journal, watchdog_s, limit_s
        self.programs = Programs(journal.folder, self.say, journal.add)
        self.services = services(journal.folder)
        self.pending = b""
        self.began = self.heard = time.monotonic()
        self.wake, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (*SIGNALS, signal.SIGCHLD):
            signal.signal(number, lambda _number, _frame: None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until the end, then undo."""
        undone, left = self.journal.undo()
        answer = {
            "ready": os.getpid(),
            "uid": os.geteuid(),
            "folder": str(self.journal.folder),
            "undone": undone,
            "left": left,
            "previous": self.journal.previous_end(),
        }
        try:
            self.say(answer)
            while True:
                self.step()
        except Ended as end:
            reason = str(end)
        self.finish(reason)

    def finish(self, reason: str) -> None:
        """End the programs and undo the changes; says so, and leaves word if it is not what was asked for."""
        programs = list(self.programs.running)
        for name in programs:
            with contextlib.suppress(Ended):  # its last lines have no reader
                self.programs.stop(name, signal.SIGTERM)
        undone, left = self.journal.undo()
        note = {"end": reason, "programs": programs, "undone": undone, "left": left}
        if reason != "asked":
            self.journal.note_end({**note, "time": time.time()})
        with contextlib.suppress(Ended):
            self.say(note)

    def step(self) -> None:
        """Wait for one thing and act on it. Raises Ended."""
        now = time.monotonic()
        if now - self.began >= self.limit_s:
            raise Ended(f"time limit of {self.limit_s:g} s")
        # Heartbeats may wait unread, as this process served a request or was stopped.
        if now - self.heard >= self.watchdog_s and not select.select([0], [], [], 0)[0]:
            raise Ended(f"no heartbeat for {self.watchdog_s:g} s")
        wait = min(self.began + self.limit_s, self.heard + self.watchdog_s) - now
        pipes = self.programs.pipes()
        ready, _, _ = select.select([0, self.wake, *pipes], [], [], max(0.0, wait))
        for descriptor in ready:
            if descriptor in pipes:
                self.programs.read(pipes[descriptor])
        if self.wake in ready:
            for number in os.read(self.wake, 64):
                if number in SIGNALS:
                    raise Ended(f"signal {signal.Signals(number).name}")
            self.programs.report_ended()
        if 0 in ready:
            self.read_requests()

    def read_requests(self) -> None:
        """Serve the whole lines of stdin."""
        try:
            chunk = os.read(0, 65536)
        except BlockingIOError:
            return
        except OSError as error:
            raise Ended("connection lost") from error
        if not chunk:
            raise Ended("connection lost")
        self.heard = time.monotonic()
        *lines, self.pending = (self.pending + chunk).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["do"] == "end":
                raise Ended("asked")
            if request["do"] == "beat":
                continue
            try:
                answer: Record = {"ok": True, "result": self.serve(request)}
            except Refused as refused:
                answer = {"ok": False, "error": str(refused)}
            except (KeyError, TypeError, ValueError, OSError) as error:
                answer = {"ok": False, "error": f"{request['do']}: {type(error).__name__}: {error}"}
            self.say({"id": request["id"], **answer})

    def serve(self, request: Record) -> Any:
        """Do what a request asks for. Raises Refused."""
        kind = request["do"]
        if kind == "start":
            return self.programs.start(request)
        if kind == "stop":
            return self.programs.stop(request["name"], signal.Signals[request.get("signal", "SIGTERM")])
        if kind == "signal":
            return self.programs.send(request["name"], signal.Signals[request["signal"]])
        if kind == "stderr":
            return self.programs.stderr(request["name"])
        if kind in self.services:
            return self.services[kind](request)
        if kind not in PLAN:
            valid = ["start", "stop", "signal", "stderr", "end", "beat", *self.services, *PLAN]
            raise Refused(f"no request {kind!r}; valid: {', '.join(valid)}")
        record = PLAN[kind](request)
        if record is None:
            return False
        before = self.journal.add({"kind": kind, **record})
        try:
            MAKE[kind](record)
        except Refused:
            # A program that fails may have made a part of it. What cannot be undone now stays in the journal.
            UNDO[kind](record)
            self.journal.forget(before)
            raise
        return True

    def say(self, answer: Record) -> None:
        """Write a line. Raises Ended if nobody reads any more."""
        line = json.dumps(answer).encode() + b"\n"
        give_up = time.monotonic() + self.watchdog_s
        while line:
            try:
                line = line[os.write(1, line) :]
            except BlockingIOError:
                if not select.select([], [1], [], max(0.0, give_up - time.monotonic()))[1]:
                    raise Ended("connection lost") from None
            except OSError as error:
                raise Ended("connection lost") from error


def main() -> None:
    """Serve one connection."""
    asked = json.loads(sys.argv[1])
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.umask(0o077)
    for descriptor in (0, 1):
        os.set_blocking(descriptor, False)
    try:
        journal = Journal(Path(asked["work_folder"] or f"/var/tmp/weir-{os.geteuid()}"))
    except Refused as refused:
        os.write(1, json.dumps({"refused": str(refused)}).encode() + b"\n")
        sys.exit(4)
    Helper(journal, asked["watchdog_s"], asked["limit_s"]).run()


if __name__ == "__main__":
    main()
