# SPDX-License-Identifier: Apache-2.0
"""What p4testgen says that the Tofino programs do: v1model's does it too, or the difference is declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from virtual.under_test import SESSION, PipelineUnderTest, Report, collector, frames
from weir.controlplane.entities import CloneSession, Entity, TableEntry
from weir.ptftests.scripts import FOLDER, Script, is_like, read

REPORTS = 5
"""The port of the collector; generated tests have ports 1 to 4."""
BRIDGE_DIGITS = 2 * 26
"""Of `bridge_t` (p4src/tna/types.p4), which stands in front of every frame on its way to egress."""
CELL = slice(16, 20)
DROPPED, MALFORMED = (70, 72), range(101, 117)
"""Reasons."""
DECLARED = Path(__file__).resolve().parents[2] / "docs" / "tofino.md"

DIFFERENCES: Mapping[str, Sequence[int]] = {
    "lengths beyond the frame (reasons 112, 115)": (112, 115),
    "lengths that end within the headers (113, 116)": (113, 116),
}
"""By the capability's name in docs/tofino.md: the reasons for which v1model drops a packet that shows it."""


def scripts() -> Iterator[Script]:
    """Of both chips."""
    for name in ("tofino1", "tofino2"):
        yield from read(FOLDER / f"{name}.stf")


def for_v1model(script: Script) -> Iterator[Entity]:
    """The script's entries, with one session for whatever p4testgen chose, and a collector for each."""
    yield CloneSession(SESSION, (REPORTS,))
    for entity in script.written:
        if isinstance(entity, TableEntry) and entity.table == "report":
            args = dict(entity.args)
            if "collector" in args:
                yield collector(args["collector"], inner_bytes=len(script.frame))
                entity = replace(entity, args=tuple(sorted((args | {"session": SESSION}).items())))
        yield entity


@dataclass(frozen=True)
class Outcome:
    """What v1model made of a packet."""

    left: Mapping[int, str]
    """By port."""
    told: Sequence[Report]
    dropped: Sequence[int]
    """Reasons for which packets were counted."""
    met: tuple[int, int, int]
    """Packets by colour in the cell that Tofino names."""


class Replay:
    """One switch for all scripts, as loading the pipeline takes longer than they do."""

    def __init__(self) -> None:
        """Without any entry."""
        self._switch = PipelineUnderTest(alone=True)

    def run(self, script: Script) -> Outcome:
        """Write a script's entries, send its packet, and take the entries back."""
        entities = list(for_v1model(script))
        self._switch.write(*entities)
        cell = named_cell(script)
        met, dropped = self._switch.colours(cell), self._dropped()
        sent = frames(self._switch.send(script.frame, port=script.port))
        for entity in reversed(entities):
            self._switch.delete(entity)
        return Outcome(
            {event.port: event.frame.hex() for event in sent if event.port != REPORTS},
            [Report.of(event) for event in sent if event.port == REPORTS],
            [reason for reason, packets in self._dropped().items() if packets != dropped[reason]],
            tuple(after - before for after, before in zip(self._switch.colours(cell), met, strict=True)),
        )

    def _dropped(self) -> dict[int, int]:
        return {reason: self._switch.packets("drop_counter", reason) for reason in (*DROPPED, *MALFORMED)}


def named_cell(script: Script) -> int:
    """The cell that Tofino's packet met, as what stands in front of its frame says; 0 is none."""
    (pattern,) = next(iter(script.expected.values()), ("0" * BRIDGE_DIGITS,))
    assert pattern is not None
    return int(pattern[CELL], 16)


def disagreement(script: Script, made: Outcome) -> str | None:
    """How v1model treats the packet otherwise than the Tofino program."""
    if made.left.keys() != script.expected.keys():
        return f"frames leave through {sorted(made.left)}, not {sorted(script.expected)}"
    for port, (pattern,) in script.expected.items():
        assert pattern is not None
        if not is_like(made.left[port], pattern[BRIDGE_DIGITS:]):
            return f"{made.left[port]} leaves, not {pattern[BRIDGE_DIGITS:]}"
    if named_cell(script) and made.met != (1, 0, 0):
        return f"{made.met} packets met cell {named_cell(script)}"
    if script.mirrored is None:
        return f"{made.told} is reported" if made.told else None
    if len(made.told) != 1:
        return f"{len(made.told)} reports"
    (report,) = made.told
    if report.inner != script.frame:
        return f"{report.inner.hex()} is reported"
    said = {"why": report.drop_reason, "colour": report.colour, "tracked": report.tracked}
    differ = {name: (value, script.mirrored.get(name)) for name, value in said.items()}
    differ = {name: both for name, both in differ.items() if both[0] != both[1]}
    return f"v1model's report and Tofino's copy say {differ}" if differ else None


@pytest.fixture(scope="module")
def replay():
    return Replay()


@pytest.mark.parametrize("script", [*scripts()], ids=lambda script: script.name.replace(" ", "-"))
def test_what_tofino_does_with_a_generated_packet_v1model_does_or_a_declared_capability_tells_them_apart(
    replay, script
):
    made = replay.run(script)
    found = disagreement(script, made)
    if found is not None:
        assert any(set(reasons) & set(made.dropped) for reasons in DIFFERENCES.values()), found


def test_a_script_that_says_otherwise_is_found(replay):
    replayed = ((script, replay.run(script)) for script in scripts() if script.expected)
    script, made = next(both for both in replayed if disagreement(*both) is None)
    (port, (pattern,)) = next(iter(script.expected.items()))
    other = pattern[:-1] + ("0" if pattern[-1] != "0" else "1")
    for expected in ({}, {port % 4 + 1: (pattern,)}, {port: (other,)}):
        assert disagreement(replace(script, expected=expected), made) is not None
    assert disagreement(replace(script, mirrored={"why": 70}), made) is not None


def test_every_difference_is_a_capability_that_is_written_down():
    written = {line.split(" | ")[0].removeprefix("| ") for line in DECLARED.read_text().splitlines()}
    assert set(DIFFERENCES) <= written
