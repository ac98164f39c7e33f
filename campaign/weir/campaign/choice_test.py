# SPDX-License-Identifier: Apache-2.0
"""Selected values and other numbers of repeats yield the same runs as the full campaign."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.campaign.choice import only, without_lacking
from weir.campaign.errors import CampaignError
from weir.campaign.load import Overrides, parse_campaign
from weir.campaign.virtual import with_kernels
from weir.kernel.errors import KernelInputError
from weir.kernel.store import kernels_folder
from weir.runner.machine import offered
from weir_tests.kernel.made_up_kernels import add_kernel

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


KERNELS = """
name: x
time: virtual
lacking: %s
matrix: {kernel: [6.12, bbr3], cc: [cubic, vegas]}
repeats: 3
hosts: {client: {}, server: {}}
flows:
  - {name: one, from: server, to: client, congestion_control: $cc, duration: 1 s}
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    add_kernel(kernels_folder(), "6.12", ("cubic", "vegas"))
    add_kernel(kernels_folder(), "bbr3", ("bbr", "cubic"))


@pytest.mark.usefixtures("kernels")
def test_a_congestion_control_that_a_kernel_lacks_is_named_before_the_first_run() -> None:
    with pytest.raises(CampaignError) as refused:
        without_lacking(with_kernels(parse_campaign(KERNELS % "refuse"), 512))
    assert str(refused.value) == (
        "kernel bbr3 lacks vegas (3 runs); its congestion controls: bbr cubic; "
        "valid: another kernel, or lacking: leave_out"
    )


QUEUES = """
name: x
time: virtual
lacking: leave_out
matrix: {kernel: [6.12, old], queue: [pfifo limit 9, pie ecn, dualpi2]}
hosts: {client: {receive_queue: {discipline: $queue, rate: 1 Mbit/s}}, server: {}}
flows: [{name: one, from: server, to: client, duration: 1 s}]
"""


def test_runs_with_a_queueing_discipline_that_their_kernel_lacks_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    add_kernel(kernels_folder(), "6.12", ("cubic",), ("CONFIG_IFB=y", "CONFIG_NET_SCH_PIE=y"))
    add_kernel(kernels_folder(), "old", ("cubic",))
    campaign, said = without_lacking(with_kernels(parse_campaign(QUEUES), 512))
    assert {run.cell["queue"] for run in campaign.runs} == {"pfifo limit 9", "pie ecn"}
    assert {run.cell["kernel"] for run in campaign.runs} == {"6.12"}
    assert campaign.left_out == {"dualpi2 in kernel 6.12": 1, "ifb in kernel old": 3}
    assert said.startswith("left out: kernel 6.12 lacks dualpi2 (1 run); its congestion controls: cubic; ")


@pytest.mark.usefixtures("kernels")
def test_runs_with_a_congestion_control_that_their_kernel_lacks_may_be_left_out() -> None:
    campaign, said = without_lacking(with_kernels(parse_campaign(KERNELS % "leave_out"), 512))
    assert {(run.cell["kernel"], run.cell["cc"]) for run in campaign.runs} == {
        ("6.12", "cubic"),
        ("6.12", "vegas"),
        ("bbr3", "cubic"),
    }
    assert campaign.left_out == {"vegas in kernel bbr3": 3}
    assert said == "left out: kernel bbr3 lacks vegas (3 runs); its congestion controls: bbr cubic"


@pytest.mark.usefixtures("kernels")
def test_a_kernel_that_does_not_exist_is_named_with_those_that_do() -> None:
    text = (KERNELS % "refuse").replace("6.12, bbr3", "6.12, bbr4")
    with pytest.raises(KernelInputError, match=r"no kernel 'bbr4'; valid: 6.12, bbr3; build one with: "):
        with_kernels(parse_campaign(text), 512)


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
    assert said.startswith("left out: this kernel lacks no_such_cc (1 run); its congestion controls: ")
    assert all(name in said for name in listed)
