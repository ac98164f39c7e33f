# SPDX-License-Identifier: Apache-2.0
"""v1model reports a packet as p4testgen says that Tofino does, except for declared differences."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from virtual.replay import Outcome, Replays, scripts
from virtual.under_test import GREEN, RED, YELLOW
from weir.ptftests.scripts import Script, matches

REPORT_BYTES = 42 + 56
"""Bytes before the inner packet: outer headers and the report's (docs/spec/telemetry-report.md)."""
REASON, CELL, COLOUR = slice(166, 168), slice(172, 176), slice(176, 178)
SEQUENCE, TIMES, WIRE_LENGTH = slice(86, 92), slice(132, 164), slice(180, 188)
"""Fields as hexadecimal digits of a report."""
LEAST_FRAME_BYTES = 60
POLICER, NONE = 70, 0


def reported(script: Script) -> str:
    """The report that leaves Tofino, cut where `inner_bytes` tells its mirror session to cut."""
    (((pattern,),),) = (script.expected.values(),)
    assert pattern is not None
    (inner_bytes,) = [
        dict(entity.args)["inner_bytes"] for entity in script.written if "inner_bytes" in dict(entity.args)
    ]
    return pattern[: 2 * (REPORT_BYTES + inner_bytes)]


def colour_of(script: Script) -> int:
    """The colour that Tofino reports; green where the digits are free (*), as the packet met no meter."""
    digits = reported(script)[COLOUR]
    return GREEN if "*" in digits else int(digits, 16)


def run(replays: Replays, script: Script) -> Outcome:
    """Run a script on the switch of its colour."""
    return replays.run(script, colour_of(script), int(reported(script)[CELL], 16))


def ip_wire_length(frame: bytes) -> int:
    """A frame's length by its IP header, with Ethernet and one tag."""
    at = 14 + 4 * (frame[12:14] == b"\x81\x00")
    if frame[at - 2 : at] == b"\x08\x00":
        length = at + struct.unpack_from("!H", frame, at + 2)[0]
    else:
        length = at + 40 + struct.unpack_from("!H", frame, at + 4)[0]
    return max(length, LEAST_FRAME_BYTES) & 0xFFFF


def disagreement(script: Script, made: Outcome) -> str | None:
    """How v1model's report differs from Tofino's, apart from clock and numbers; None if it does not."""
    if len(made.reports) != 1:
        return f"{len(made.reports)} reports"
    pattern, sent = reported(script), made.reports[0].frame
    ours, theirs = list(sent.hex()), list(pattern)
    dropped = int(pattern[REASON], 16) != NONE
    if dropped and int(pattern[WIRE_LENGTH], 16) != ip_wire_length(script.frame):
        return f"Tofino reports {int(pattern[WIRE_LENGTH], 16)} bytes, IP says {ip_wire_length(script.frame)}"
    for digits in (SEQUENCE, TIMES, *((WIRE_LENGTH,) if dropped else ())):
        ours[digits] = theirs[digits] = "*" * (digits.stop - digits.start)
    if not matches("".join(ours), "".join(theirs)):
        return f"{''.join(ours)} is reported, not {''.join(theirs)}"
    if not script.frame.startswith(sent[REPORT_BYTES:]):
        return f"{sent[REPORT_BYTES:].hex()} is the inner packet"
    return None


@pytest.fixture(scope="module")
def replays():
    return Replays()


@pytest.mark.parametrize("script", scripts("_reports"), ids=lambda script: script.name.replace(" ", "-"))
def test_v1model_reports_a_generated_packet_as_tofino_does_unless_a_declared_capability_differs(
    replays, script
):
    made = run(replays, script)
    found = disagreement(script, made)
    assert found is None or made.shows_a_declared_difference(), found


def test_packets_that_passed_are_reported_in_every_colour_and_drops_in_those_that_are_not_green():
    reports = [reported(script) for script in scripts("_reports")]
    seen = {
        (int(report[REASON], 16), int(report[COLOUR], 16)) for report in reports if report[CELL] != "0000"
    }
    assert {(NONE, GREEN), (NONE, YELLOW), (NONE, RED), (POLICER, YELLOW), (POLICER, RED)} <= seen


def test_a_report_that_differs_is_found(replays):
    script = next(script for script in scripts("_reports") if int(reported(script)[REASON], 16) == POLICER)
    made = run(replays, script)
    assert disagreement(script, made) is None
    ((port, (pattern,)),) = script.expected.items()
    for digits in (REASON, CELL, COLOUR, WIRE_LENGTH, slice(0, 2)):
        other = f"{int(pattern[digits], 16) ^ 1:0{digits.stop - digits.start}x}"
        expected = {port: (pattern[: digits.start] + other + pattern[digits.stop :],)}
        assert disagreement(replace(script, expected=expected), made) is not None, digits
    assert disagreement(script, replace(made, reports=[])) is not None
