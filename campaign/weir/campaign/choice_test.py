# SPDX-License-Identifier: Apache-2.0
"""Selected values and other numbers of repeats yield the same runs as the full campaign."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.campaign.choice import only, without_lacking
from weir.campaign.errors import CampaignError
from weir.campaign.load import Overrides, parse_campaign
from weir.runner.machine import offered

TEXT = """
name: many
matrix: {rate: [1 Mbit/s, 2 Mbit/s, 3 Mbit/s], "cc": [bbr, cubic]}
parts: {short: {variables: {s: 1 s}}, long: {matrix: {s: [8 s, 9 s]}}}
repeats: 2
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: $s, congestion_control: $cc, rate: $rate}]
"""
ALL = parse_campaign(TEXT)


def test_labels_of_one_axis_are_alternatives_and_all_axes_must_match() -> None:
    found = only(ALL, ["rate=1 Mbit/s, 3 Mbit/s", "cc=bbr"])
    assert {(run.cell["rate"], run.cell["cc"]) for run in found.runs} == {
        ("1 Mbit/s", "bbr"),
        ("3 Mbit/s", "bbr"),
    }
    assert len(found.runs) == 2 * 3 * 2, "rates x (one cell of `short` and two of `long`) x repeats"
    assert only(ALL, ["rate=1 Mbit/s", "rate=3 Mbit/s", "cc=bbr"]).runs == found.runs
    assert all(run in ALL.runs for run in found.runs)


def test_selecting_on_an_axis_leaves_out_parts_without_that_axis() -> None:
    assert {run.cell["part"] for run in only(ALL, ["s=8 s"]).runs} == {"long"}
    assert len(only(ALL, ["part=short"]).runs) == 12


def test_more_repeats_do_not_change_existing_runs() -> None:
    more = parse_campaign(TEXT, overrides=Overrides(repeats=5))
    assert len(more.runs) == len(ALL.runs) * 5 // 2
    assert {run.key: (run.seed, run.digest) for run in ALL.runs}.items() <= {
        run.key: (run.seed, run.digest) for run in more.runs
    }.items()


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("rate", "valid: AXIS=LABEL"),
        ("rates=1 Mbit/s", "did you mean 'rate'"),
        ("rate=4 Mbit/s", "valid: 1 Mbit/s, 2 Mbit/s, 3 Mbit/s"),
    ],
)
def test_an_invalid_selection_is_an_error_that_lists_what_is_valid(wanted: str, message: str) -> None:
    with pytest.raises(CampaignError, match=message):
        only(ALL, [wanted])


def test_a_selection_without_runs_is_an_error() -> None:
    with pytest.raises(CampaignError, match="no run has all of these"):
        only(ALL, ["part=short", "s=8 s"])


LACKING = """
name: x
lacking: leave_out
matrix: {cc: [%s, no_such_cc]}
hosts: {client: {}, server: {}}
flows:
  - {name: one, from: server, to: client, congestion_control: $cc, duration: 1 s}
"""


def test_runs_with_a_congestion_control_that_the_kernel_lacks_are_left_out_and_named() -> None:
    listed = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert offered([*listed, "no_such_cc"]) == set(listed)
    campaign, said = without_lacking(parse_campaign(LACKING % listed[0]))
    assert [run.cell["cc"] for run in campaign.runs] == [listed[0]]
    assert said.startswith("left out: this kernel lacks no_such_cc (1 run); it has ")
    assert all(name in said for name in listed)
