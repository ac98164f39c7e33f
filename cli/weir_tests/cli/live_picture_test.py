# SPDX-License-Identifier: Apache-2.0
"""`weir run` on a pseudo-terminal: the live picture, a resize, Ctrl-C, and JSON on stdout meanwhile."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import sys
import termios
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from select import select
from subprocess import Popen
from time import monotonic

import pytest

from weir.topo.sandbox import sandbox_problem
from weir_tests.cli.processes import MARKER, marked_processes, wait_until

EXPERIMENT = """
name: short
hosts:
  client: {{delay: 5 ms}}
  server: {{delay: 5 ms}}
  queued: {{delay: 5 ms, rate: 5 Mbit/s, queue: 20 kB}}
flows:
  - {{name: one, from: server, to: client, duration: {duration}, measured: true}}
  - {{name: two, from: server, to: queued, duration: {duration}, measured: true}}
policers:
  - {{name: common, rate: 5 Mbit/s, burst: 20 ms, match: [{{to: client}}]}}
"""
ENTER, LEAVE, HOME = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[H"
HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"
COUNTED = re.compile(rb"packets dropped \((\d+\.\d) %\)")
pytestmark = pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}")


@dataclass
class Terminal:
    """A running `weir run`, its terminal's output so far, and its stdout."""

    process: Popen[str]
    master: int
    folder: Path
    shown: bytes = b""

    def read_until(self, condition: Callable[[], bool], patience_s: float = 120.0) -> None:
        """Read the terminal until the condition holds or the program has closed it."""
        give_up = monotonic() + patience_s
        while not condition():
            assert monotonic() < give_up, self.shown[-2000:].decode(errors="replace")
            if select([self.master], [], [], 1.0)[0]:
                try:
                    self.shown += os.read(self.master, 65536)
                except OSError:  # Linux: the last writer has closed the terminal
                    return

    def resize(self, rows: int, columns: int) -> None:
        """Change the terminal's size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def end(self) -> int:
        """Read all output; returns the exit code."""
        self.read_until(lambda: False)
        return self.process.wait(timeout=60)


@contextmanager
def weir_run(
    folder: Path, marker: str, *, duration: str, options: tuple[str, ...] = ()
) -> Iterator[Terminal]:
    """`weir run --json` on a terminal of 80 columns that is not stdout."""
    config = folder / "short.yaml"
    config.write_text(EXPERIMENT.format(duration=duration))
    master, slave = pty.openpty()
    weir = str(Path(sys.executable).with_name("weir"))
    # Workers of pytest have COLUMNS, which would be the width of every terminal.
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with (folder / "stdout").open("w") as stdout:
        process = Popen(
            # setsid --ctty: Ctrl-C typed on the terminal becomes SIGINT.
            [
                "setsid",
                "--ctty",
                weir,
                "run",
                str(config),
                "--runs",
                str(folder / "runs"),
                "--json",
                *options,
            ],
            stdin=slave,
            stdout=stdout,
            stderr=slave,
            text=True,
            env={**environment, MARKER: marker, "TERM": "xterm-256color"},
        )
    os.close(slave)
    terminal = Terminal(process, master, folder)
    terminal.resize(24, 80)
    try:
        yield terminal
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
        os.close(master)


def assert_clean(shown: bytes) -> None:
    """The terminal is back on its normal screen and has its cursor."""
    assert shown.count(ENTER) == shown.count(LEAVE)
    assert shown.rfind(SHOW_CURSOR) > shown.rfind(HIDE_CURSOR)


def widths(shown: bytes) -> list[int]:
    """Columns of each complete frame; the first piece may lack its beginning."""
    frames = [re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", frame).decode() for frame in shown.split(HOME)[1:-1]]
    return [max(len(line.rstrip("\r")) for line in frame.split("\n")) for frame in frames]


def test_the_picture_shows_drops_while_flows_run_and_the_run_is_explained(tmp_path: Path) -> None:
    with weir_run(tmp_path, uuid.uuid4().hex, duration="4 s") as terminal:
        terminal.read_until(lambda: COUNTED.search(terminal.shown) is not None)
        assert LEAVE not in terminal.shown, "the counts were only shown after the phase"
        terminal.resize(20, 40)
        wide = len(terminal.shown)
        terminal.read_until(lambda: any(width <= 40 for width in widths(terminal.shown[wide:])))
        narrow = len(terminal.shown)
        assert LEAVE not in terminal.shown, "the picture kept its width until the phase ended"
        assert terminal.end() == 0
    assert max(widths(terminal.shown[narrow : terminal.shown.rindex(LEAVE)]), default=0) <= 40
    printed = terminal.shown[terminal.shown.rindex(LEAVE) :]
    assert b"common" in printed
    assert b"queue to queued" in printed
    assert_clean(terminal.shown)
    result = json.loads((tmp_path / "stdout").read_text())
    assert result["complete"]
    assert [flow["unexplained"] for flow in result["flows"]] == [0, 0]
    assert all(flow["reported_drops"] > 0 for flow in result["flows"])


def test_ctrl_c_says_so_in_the_picture_and_leaves_the_terminal_clean(tmp_path: Path) -> None:
    marker = uuid.uuid4().hex
    with weir_run(tmp_path, marker, duration="60 s") as terminal:
        terminal.read_until(lambda: COUNTED.search(terminal.shown) is not None)
        os.write(terminal.master, b"\x03")
        assert terminal.end() == 130
    assert_clean(terminal.shown)
    assert b"weir: the run was stopped early (interrupted)" in terminal.shown[terminal.shown.rindex(LEAVE) :]
    wait_until(
        lambda: not list(marked_processes(marker)), 10, lambda: f"left: {list(marked_processes(marker))}"
    )


def test_plain_lines_have_no_control_codes(tmp_path: Path) -> None:
    with weir_run(tmp_path, uuid.uuid4().hex, duration="1 s", options=("--plain",)) as terminal:
        assert terminal.end() == 0
    assert b"phase main: flows for 1 s" in terminal.shown
    assert ENTER not in terminal.shown
    assert HIDE_CURSOR not in terminal.shown
