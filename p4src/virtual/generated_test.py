# SPDX-License-Identifier: Apache-2.0
"""What p4testgen says that the Tofino programs do: v1model's does it too, or the difference is declared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from virtual.replay import BURSTS, DECLARED, DIFFERENCES, DROPPED, Outcome, Replays, scripts
from virtual.under_test import GREEN, RED, YELLOW, Report
from weir.controlplane.entities import TableEntry
from weir.ptftests.scripts import Script, is_like

BRIDGE_DIGITS = 2 * 26
"""Of `bridge_t` (p4src/tna/types.p4), which stands in front of every frame on its way to egress."""
CELL = slice(16, 20)
COLOURS = {"come_in_yellow": YELLOW, "come_in_red": RED}


def in_front(script: Script) -> str:
    """What stands in front of the frame that leaves; zeros if none does."""
    (pattern,) = next(iter(script.expected.values()), ("0" * BRIDGE_DIGITS,))
    assert pattern is not None
    return pattern[:BRIDGE_DIGITS]


def colour_of(script: Script) -> int:
    """The colour that Tofino's packet comes in with, and that p4testgen's meter leaves it with."""
    actions = {entity.action for entity in script.written if isinstance(entity, TableEntry)}
    (colour,) = [colour for action, colour in COLOURS.items() if action in actions] or [GREEN]
    return colour


def named_cell(script: Script) -> int:
    """The cell that Tofino's packet met, as what stands in front of its frame says; 0 is none."""
    return int(in_front(script)[CELL], 16)


def run(replays: Replays, script: Script) -> Outcome:
    """A script on the switch of its colour."""
    return replays.run(script, colour_of(script), named_cell(script))


def disagreement(script: Script, made: Outcome) -> str | None:
    """How v1model treats the packet otherwise than the Tofino program."""
    if made.left.keys() != script.expected.keys():
        return f"frames leave through {sorted(made.left)}, not {sorted(script.expected)}"
    for port, (pattern,) in script.expected.items():
        assert pattern is not None
        if not is_like(made.left[port], pattern[BRIDGE_DIGITS:]):
            return f"{made.left[port]} leaves, not {pattern[BRIDGE_DIGITS:]}"
    if named_cell(script) and made.met != tuple(int(colour == colour_of(script)) for colour in BURSTS):
        return f"{made.met} packets met cell {named_cell(script)}"
    if script.mirrored is None:
        return f"{made.told} is reported" if made.told else None
    if len(made.told) != 1:
        return f"{len(made.told)} reports"
    report = Report.of(made.told[0])
    if report.inner != script.frame:
        return f"{report.inner.hex()} is reported"
    said = {"why": report.drop_reason, "colour": report.colour, "tracked": report.tracked}
    differ = {name: (value, script.mirrored.get(name)) for name, value in said.items()}
    differ = {name: both for name, both in differ.items() if both[0] != both[1]}
    return f"v1model's report and Tofino's copy say {differ}" if differ else None


@pytest.fixture(scope="module")
def replays():
    return Replays()


@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.name.replace(" ", "-"))
def test_what_tofino_does_with_a_generated_packet_v1model_does_or_a_declared_capability_tells_them_apart(
    replays, script
):
    made = run(replays, script)
    found = disagreement(script, made)
    assert found is None or made.shows_a_declared_difference(), found


def test_packets_of_every_colour_pass_their_policer_and_are_dropped():
    seen = {(colour_of(script), named_cell(script) != 0) for script in scripts() if script.mirrored is None}
    dropped = {
        colour_of(script) for script in scripts() if script.mirrored and script.mirrored["why"] in DROPPED
    }
    assert {(colour, True) for colour in BURSTS} <= seen
    assert dropped == set(BURSTS)


def test_a_script_that_says_otherwise_is_found(replays):
    replayed = ((script, run(replays, script)) for script in scripts() if script.expected)
    script, made = next(both for both in replayed if disagreement(*both) is None)
    (port, (pattern,)) = next(iter(script.expected.items()))
    other = pattern[:-1] + ("0" if pattern[-1] != "0" else "1")
    for expected in ({}, {port % 4 + 1: (pattern,)}, {port: (other,)}):
        assert disagreement(replace(script, expected=expected), made) is not None
    assert disagreement(replace(script, mirrored={"why": 70}), made) is not None


def test_every_difference_is_a_capability_that_is_written_down():
    written = {line.split(" | ")[0].removeprefix("| ") for line in DECLARED.read_text().splitlines()}
    assert set(DIFFERENCES) <= written
