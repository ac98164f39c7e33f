# SPDX-License-Identifier: Apache-2.0
"""v1model treats a packet as p4testgen says that Tofino does, except for declared differences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from virtual.replay import BURSTS, DECLARED, DIFFERENCES, DROPPED, Outcome, Replays, scripts
from virtual.under_test import GREEN, RED, YELLOW, Report
from weir.controlplane.entities import TableEntry
from weir.ptftests.scripts import Script, matches

BRIDGE_DIGITS = 2 * 26
"""Digits of `bridge_t` (p4src/tna/types.p4), which precedes every frame between ingress and egress."""
CELL = slice(16, 20)
COLOURS = {"come_in_yellow": YELLOW, "come_in_red": RED}


def bridge(script: Script) -> str:
    """The `bridge_t` before the frame that leaves; zeros if none leaves."""
    (pattern,) = next(iter(script.expected.values()), ("0" * BRIDGE_DIGITS,))
    assert pattern is not None
    return pattern[:BRIDGE_DIGITS]


def colour_of(script: Script) -> int:
    """The colour with which Tofino's packet comes in; p4testgen's meter does not change it."""
    actions = {entity.action for entity in script.written if isinstance(entity, TableEntry)}
    (colour,) = [colour for action, colour in COLOURS.items() if action in actions] or [GREEN]
    return colour


def named_cell(script: Script) -> int:
    """The cell that Tofino's packet met, by its `bridge_t`; 0 is none."""
    return int(bridge(script)[CELL], 16)


def run(replays: Replays, script: Script) -> Outcome:
    """Run a script on the switch of its colour."""
    return replays.run(script, colour_of(script), named_cell(script))


def disagreement(script: Script, made: Outcome) -> str | None:
    """How v1model treats the packet differently from the Tofino program; None if it does not."""
    if made.left.keys() != script.expected.keys():
        return f"frames leave through {sorted(made.left)}, not {sorted(script.expected)}"
    for port, (pattern,) in script.expected.items():
        assert pattern is not None
        if not matches(made.left[port], pattern[BRIDGE_DIGITS:]):
            return f"{made.left[port]} leaves, not {pattern[BRIDGE_DIGITS:]}"
    if named_cell(script) and made.met != tuple(int(colour == colour_of(script)) for colour in BURSTS):
        return f"{made.met} packets met cell {named_cell(script)}"
    if script.mirrored is None:
        return f"{made.reports} is reported" if made.reports else None
    if len(made.reports) != 1:
        return f"{len(made.reports)} reports"
    report = Report.of(made.reports[0])
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
def test_v1model_treats_a_generated_packet_as_tofino_does_unless_a_declared_capability_differs(
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


def test_a_script_that_differs_is_found(replays):
    replayed = ((script, run(replays, script)) for script in scripts() if script.expected)
    script, made = next(both for both in replayed if disagreement(*both) is None)
    (port, (pattern,)) = next(iter(script.expected.items()))
    other = pattern[:-1] + ("0" if pattern[-1] != "0" else "1")
    for expected in ({}, {port % 4 + 1: (pattern,)}, {port: (other,)}):
        assert disagreement(replace(script, expected=expected), made) is not None
    assert disagreement(replace(script, mirrored={"why": 70}), made) is not None


def test_every_difference_is_a_documented_capability():
    written = {line.split(" | ")[0].removeprefix("| ") for line in DECLARED.read_text().splitlines()}
    assert set(DIFFERENCES) <= written
