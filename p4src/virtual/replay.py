# SPDX-License-Identifier: Apache-2.0
"""Run the entries and the packet of a test that p4testgen wrote for Tofino on the v1model program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from virtual.under_test import GREEN, RED, SESSION, YELLOW, PipelineUnderTest, collector, frames
from weir.controlplane.entities import CloneSession, Entity, TableEntry
from weir.ptftests.scripts import FOLDER, Script, read
from weir.softswitch.events import SentFrame

REPORTS = 5
"""The port of the collector; generated tests have ports 1 to 4."""
DROPPED, MALFORMED = (70, 72), range(101, 117)
"""Drop reasons."""
DECLARED = Path(__file__).resolve().parents[2] / "docs" / "tofino.md"
DIFFERENCES: Mapping[str, Sequence[int]] = {
    "lengths beyond the frame (reasons 112, 115)": (112, 115),
    "lengths that end within the headers (113, 116)": (113, 116),
}
"""By the capability's name in docs/tofino.md: the reasons for which v1model drops a packet that Tofino
passes."""
LARGE_BYTES = 1 << 20
BURSTS = {GREEN: (LARGE_BYTES, LARGE_BYTES), YELLOW: (1, LARGE_BYTES), RED: (1, 1)}
"""Committed and peak burst of cells that give each frame this colour; on Tofino it comes in with the
colour."""


def scripts(kind: str = "") -> list[Script]:
    """The generated scripts of both chips; `kind` is empty or `_reports`."""
    return [script for chip in ("tofino1", "tofino2") for script in read(FOLDER / f"{chip}{kind}.stf")]


def for_v1model(script: Script) -> Iterator[Entity]:
    """The script's entries, with one session instead of p4testgen's, and a collector if the script has none.

    Entries for the incoming colour are left out: here the cells of the switch give the colour.
    """
    yield CloneSession(SESSION, (REPORTS,))
    entries = [entity for entity in script.written if isinstance(entity, TableEntry)]
    collects = any(entry.table == "collector" for entry in entries)
    for entry in entries:
        args = dict(entry.args)
        if "session" in args:
            if not collects:
                yield collector(args["collector"], inner_bytes=len(script.frame))
            # Every packet is reported, so that a flow's count from an earlier script does not matter.
            args |= {"session": SESSION} | ({"every": 1} if "every" in args else {})
            entry = replace(entry, args=tuple(sorted(args.items())))
        if entry.table != "pre_colour":
            yield entry


@dataclass(frozen=True)
class Outcome:
    """The frames, reports and counts that a packet caused on v1model."""

    left: Mapping[int, str]
    """Frames that left, in hex, by port."""
    reports: Sequence[SentFrame]
    dropped: Sequence[int]
    """Reasons for which packets were counted."""
    met: tuple[int, int, int]
    """Packets by colour in the cell that the packet met on Tofino."""

    def shows_a_declared_difference(self) -> bool:
        """Whether it was dropped for a reason that Tofino, by a declared capability, does not drop it for."""
        return any(set(reasons) & set(self.dropped) for reasons in DIFFERENCES.values())


class Replay:
    """A switch for all scripts of a colour, as loading the pipeline takes longer than they do."""

    def __init__(self, colour: int) -> None:
        """Start without entries, and with cells that all give the colour."""
        self._switch = PipelineUnderTest(alone=True)
        self._switch.meter_all(*BURSTS[colour])

    def run(self, script: Script, cell: int) -> Outcome:
        """Write a script's entries, send its packet, and delete the entries."""
        entities = list(for_v1model(script))
        self._switch.write(*entities)
        met, dropped = self._switch.colours(cell), self._dropped()
        sent = frames(self._switch.send(script.frame, port=script.port))
        for entity in reversed(entities):
            self._switch.delete(entity)
        after = self._switch.colours(cell)
        return Outcome(
            {event.port: event.frame.hex() for event in sent if event.port != REPORTS},
            [event for event in sent if event.port == REPORTS],
            [reason for reason, packets in self._dropped().items() if packets != dropped[reason]],
            (after[GREEN] - met[GREEN], after[YELLOW] - met[YELLOW], after[RED] - met[RED]),
        )

    def _dropped(self) -> dict[int, int]:
        return {reason: self._switch.packets("drop_counter", reason) for reason in (*DROPPED, *MALFORMED)}


class Replays:
    """One :class:`Replay` for each colour, made when the first script of the colour comes."""

    def __init__(self) -> None:
        """Start without any."""
        self._by_colour: dict[int, Replay] = {}

    def run(self, script: Script, colour: int, cell: int) -> Outcome:
        """As :meth:`Replay.run`, on the switch whose cells give the colour."""
        if colour not in self._by_colour:
            self._by_colour[colour] = Replay(colour)
        return self._by_colour[colour].run(script, cell)
