# SPDX-License-Identifier: Apache-2.0
"""The process of the model: commands in, packets out. An end that nobody asked for is an error."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from weir.ptftests.model.chips import Chip

_PATIENCE_S = 60.0  # only a broken model takes this long for a batch of commands
_KEPT_LINES = 15
_PAUSE_FRAME = f"{bytes(12).hex()}080030{bytes(45).hex()}"
"""IPv4 of version 3. Pipe 1, which has neither counters nor reports here, drops it, and time passes."""
_PAUSE_PORTS = (128, 136)
"""One for each pause after a packet: a port's second frame would wait for more than 8 ns."""
_NOT_LOADED = ("Unknown file format", "Can't open", "Error reading")
_PROMPT = "weir-prompt"
"""No command: the harness complains about it, in order with what the commands before it say."""
_COMPLAINT = re.compile(r"^<stdin>:\d+: (.*)$")


class ModelError(Exception):
    """The model ended, hung, or refused a command; the text has what it said last."""


def problem(chip: Chip) -> str | None:
    """Why the model of a chip cannot be started here; None if it can."""
    if shutil.which(chip.harness) is None:
        return f"{chip.harness} is not on PATH (the Tofino model's, of open P4 Studio)"
    return None


class Harness:
    """A running model with a program."""

    def __init__(self, chip: Chip, program: Sequence[Path], log: Path, scratch: Path) -> None:
        """Start a chip's model with a program's files.

        `log` gets all that it says, `scratch` is a folder for its packets. Raises ModelError.
        """
        self._chip = chip
        self._frames = scratch / "frames"
        self._frames.write_bytes(b"")
        self._taken = 0
        self._number = 0
        self._unread = b""
        self._log = log.open("a")
        command = [chip.harness, "--observation-log", str(self._frames)]
        command += [word for path in program for word in ("-l", str(path))]
        # Words are loaded later, after which the harness must not add the program's own entries again.
        command += ["-r", "-"]
        try:
            self._process = subprocess.Popen(
                command,
                cwd=scratch,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise ModelError(f"{self._chip.harness} cannot be started: {error.strerror}") from error
        assert self._process.stdin is not None  # because of the pipes
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._out.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        refused = [
            line
            for line in self.run([])
            if line.startswith(_NOT_LOADED) and any(line.endswith(f" {path}") for path in program)
        ]
        if refused:
            self.close()
            raise ModelError(f"the model refused: {'; '.join(refused)}")

    def run(self, commands: Iterable[str]) -> list[str]:
        """Run commands; the lines that they print. Raises ModelError, also for a command that is refused."""
        said = []
        complaints = []
        for line in self._exchange(commands):
            complaint = _COMPLAINT.match(line)
            if complaint is None:
                said.append(line)
            else:
                complaints.append(complaint.group(1))
        if complaints:
            raise ModelError(f"the model refused: {'; '.join(complaints)}")
        return said

    def pass_frames(self, frames: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Send frames into ports, and return all that left, with their ports, in order. Raises ModelError."""
        # A meter knows of a packet when it has ended, which the model sees when it waits. Its colour is
        # written 16 cycles later, and a packet takes 8 ns: those in another pipe pass time.
        commands = [[f"packet {port} {frame.hex()}", "wait", *self._pauses] for port, frame in frames]
        self.run(line for lines in commands for line in lines)
        return self._left()

    def pass_spaced(self, port: int, frames: Sequence[tuple[bytes, int]]) -> list[tuple[int, bytes]]:
        """Send frames into a port, each with the time until the next one in ns; all that left, in order.

        A time is a multiple of 8 ns, and at least the chip's `min_gap_ns`. Raises ModelError, ValueError.
        """
        commands = []
        for frame, gap_ns in frames:
            least = self._chip.min_gap_ns
            if gap_ns < least or gap_ns % 8:
                raise ValueError(f"{gap_ns} ns; valid: multiples of 8 ns from {least} ns on")
            # The harness lets a port's next packet wait for 8 ns and for 80 ps for each character of this
            # packet's port number and the blanks after it, and takes the model's time there.
            width = (gap_ns - 8) * 1000 // 80
            commands += [f"packet {str(port).ljust(width)}{frame.hex()}", "wait", *self._pauses]
        self.run(commands)
        return self._left()

    @property
    def _pauses(self) -> Iterator[str]:
        """Commands that let time pass until the colour that a packet left is written."""
        for port in _PAUSE_PORTS[: self._chip.pauses]:
            yield f"packet {port} {_PAUSE_FRAME}"
            yield "wait"

    def _left(self) -> list[tuple[int, bytes]]:
        """The frames that left since the last call, with their ports."""
        with self._frames.open("rb") as log:
            log.seek(self._taken)
            lines = log.read()
        self._taken += len(lines)
        left = []
        for line in lines.decode().splitlines():
            port, _, data = line.partition(" ")
            left.append((int(port), bytes.fromhex(data)))
        return left

    def close(self) -> None:
        """End the model. Nothing that it says or returns then matters: it was asked to."""
        self._selector.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._in.close()
        self._out.close()
        self._log.close()

    def _exchange(self, commands: Iterable[str]) -> list[str]:
        self._number += 1
        prompt = f"{_PROMPT}{self._number}"
        pending = memoryview("".join(f"{command}\n" for command in [*commands, prompt]).encode())
        os.set_blocking(self._in.fileno(), False)
        said: list[str] = []
        give_up = time.monotonic() + _PATIENCE_S
        while not any(prompt in line for line in said[-1:]):
            if time.monotonic() > give_up:
                raise ModelError(
                    f"{self._chip.harness} does not answer within {_PATIENCE_S:g} s; {self._tail(said)}"
                )
            if pending:
                try:
                    pending = pending[os.write(self._in.fileno(), pending) :]
                except BlockingIOError:
                    pass
                except BrokenPipeError:
                    pending = pending[:0]
            self._selector.select(0.01 if pending else 0.5)
            said += self._lines(said)
        return said[:-1]

    def _lines(self, said: Sequence[str]) -> list[str]:
        """The whole lines that have come. Raises ModelError at the end of the output."""
        try:
            data = os.read(self._out.fileno(), 1 << 20)
        except BlockingIOError:
            return []
        if not data:
            raise ModelError(f"{self._chip.harness} {self._status()}; {self._tail(said)}")
        *lines, self._unread = (self._unread + data).split(b"\n")
        found = [line.decode(errors="replace") for line in lines]
        self._log.writelines(f"{line}\n" for line in found)
        self._log.flush()
        return found

    def _status(self) -> str:
        code = self._process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _tail(self, said: Sequence[str]) -> str:
        lines = [*said, self._unread.decode(errors="replace")]
        return "it said last:\n" + "\n".join(lines[-_KEPT_LINES:])
