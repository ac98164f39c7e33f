# SPDX-License-Identifier: Apache-2.0
"""The picture of a phase, drawn from samples of a policer of 10 Mbit/s that drops in one of four seconds."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from weir.cli.terminal.picture import PhasePicture
from weir.runner.progress import Reading, Sample

BEGIN_S = 100.0
BLOCKS = "▁▂▃▄▅▆▇█"


def picture(seconds: float = 4.0) -> PhasePicture:
    made = PhasePicture("shared", 8.0, BEGIN_S)
    for quarter in range(int(seconds * 4) + 1):
        at_s = quarter / 4
        dropped = 50 + round(40 * min(1.0, max(0.0, at_s - 2)))  # 40 packets in the third second
        packets = 7_000 + round(800 * at_s)
        reading = Reading("common", 10_000_000, packets, packets * 1_500, dropped)
        made.add(Sample(BEGIN_S + at_s, (reading,)))
    made.advance(BEGIN_S + seconds)
    return made


def drawn(width: int, *, encoding: str = "utf-8", colour: bool = False, rows: int | None = None) -> list[str]:
    made = picture()
    made.height = rows
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    console = Console(
        file=stream, width=width, force_terminal=True, no_color=not colour, color_system="standard"
    )
    console.print(made)
    stream.seek(0)
    return stream.read().splitlines()


def test_the_heading_counts_from_the_first_sample_of_the_phase() -> None:
    text = "\n".join(drawn(80, colour=False))
    assert "4 of 8 s" in text
    assert ", 10 Mbit/s: 40 of 3,240 packets dropped (1.2 %)" in text
    assert "9.6 Mbit/s" in text


def test_the_drops_are_drawn_at_their_time() -> None:
    line = next(line for line in drawn(80) if "dropped " in line and "packets/s" in line)
    chart = line[12 : 12 + 51]
    columns = [column for column, char in enumerate(chart) if char in BLOCKS]
    # The third of eight seconds.
    assert columns[0] == pytest.approx(51 * 2 / 8, abs=1)
    assert columns[-1] == pytest.approx(51 * 3 / 8, abs=1)


@pytest.mark.parametrize("width", [10, 20, 40, 56, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = drawn(width)
    assert len(lines) == 8
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\x1b[2m", "") for line in lines]
    assert max(map(len, plain)) < width


@pytest.mark.parametrize("width", [30, 80])
def test_a_terminal_without_unicode_gets_ascii(width: int) -> None:
    assert "".join(drawn(width, encoding="ascii")).isascii()


def test_colours_are_left_out_on_request() -> None:
    assert "\x1b[31m" in "".join(drawn(80, colour=True))
    assert "\x1b[31m" not in "".join(drawn(80, colour=False))


def test_a_high_screen_has_higher_charts_and_a_low_one_lower_ones() -> None:
    printed = len(drawn(80))
    assert len(drawn(80, rows=40)) > printed
    assert len(drawn(80, rows=8)) < printed
    assert len(drawn(80, rows=8)) <= 8


def test_a_phase_without_samples_shows_its_time() -> None:
    made = PhasePicture("first", 8.0, BEGIN_S)
    made.advance(BEGIN_S + 3)
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as capture:
        console.print(made)
    assert capture.get().strip() == "phase first: 3 of 8 s"
