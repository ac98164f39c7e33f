# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

import pytest
from rich.console import Console

from weir.cli.terminal.live import RunPicture, can_draw
from weir.runner.progress import Reading, Sample
from weir.topo.sandbox import STOPPING
from weir.topo.stop import StopToken
from weir_tests.cli.processes import wait_until

SAMPLE = Sample(0.0, (Reading("common", None, 10, 15_000, 2),))


def terminal(stream: io.StringIO) -> Console:
    return Console(file=stream, width=80, height=24, force_terminal=True)


def test_ctrl_c_during_a_phase_is_said_in_the_picture() -> None:
    stop, stream = StopToken(), io.StringIO()
    with RunPicture(terminal(stream), stop) as picture, picture.phase("first", 5.0):
        picture.watch(SAMPLE)
        stop.stop("interrupted")
        wait_until(lambda: STOPPING in stream.getvalue(), 10, stream.getvalue)
    printed = stream.getvalue().rpartition("\x1b[?1049l")[2]
    assert "common" in printed
    assert STOPPING not in printed


@pytest.mark.parametrize(("reason", "said"), [("interrupted", True), ("terminated", False)])
def test_ctrl_c_between_phases_is_a_line(reason: str, said: bool) -> None:
    stop, stream = StopToken(), io.StringIO()
    with RunPicture(terminal(stream), stop) as picture:
        picture.step("closing captures and telemetry")
        stop.stop(reason)  # type: ignore[arg-type]
    assert (STOPPING in stream.getvalue()) == said


def test_a_phase_that_fails_leaves_the_screen_and_shows_the_cursor() -> None:
    stream = io.StringIO()
    with RunPicture(terminal(stream), StopToken()) as picture:
        with pytest.raises(OSError, match="full"), picture.phase("first", 5.0):
            raise OSError("full")
        picture.watch(SAMPLE)  # a late sample has no picture, and is ignored
    shown = stream.getvalue()
    assert shown.count("\x1b[?1049h") == shown.count("\x1b[?1049l") == 1
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")


def test_colours_forced_into_a_file_do_not_make_it_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    console = Console(file=io.StringIO())
    assert console.is_terminal
    assert not can_draw(console)
