# SPDX-License-Identifier: Apache-2.0
"""The campaign files in experiments/ match their published setups."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.campaign.config import campaign_schema_text
from weir.campaign.estimate import Estimate
from weir.campaign.load import load_campaign
from weir.controlplane.attach import attachment_of
from weir.controlplane.config import base_round_trips, queue_bytes
from weir.controlplane.phase_plan import FlowKey
from weir.controlplane.plan import make_plan
from weir.controlplane.units import parse_rate, parse_share, parse_size, parse_time
from weir.runner.checks import check_runnable

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
CAMPAIGNS = [path for path in sorted(EXPERIMENTS.glob("*.yaml")) if "\nmatrix:" in path.read_text()]


def test_the_committed_schema_is_the_one_that_the_models_generate() -> None:
    committed = (EXPERIMENTS / "campaign.schema.json").read_text()
    assert committed == campaign_schema_text(), (
        "stale: run `weir schema --campaign > experiments/campaign.schema.json`"
    )


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_every_run_of_a_shipped_campaign_is_runnable_and_the_quick_grid_takes_at_most_half_an_hour(
    path: Path,
) -> None:
    whole, quick = load_campaign(path), load_campaign(path, quick=True)
    for run in (*whole.runs, *quick.runs):
        check_runnable(run.experiment, path)
    seconds = Estimate().seconds(quick.runs, {}, 1)
    print(f"{len(quick.runs)} of {len(whole.runs)} runs, {seconds / 60:.0f} minutes")
    assert seconds <= 30 * 60


def test_the_wehey_grid_has_the_published_rates_scenarios_and_repeats() -> None:
    campaign = load_campaign(EXPERIMENTS / "wehey-bbr.yaml")
    # Table 1: four rates, and 100 Mbit/s in section 4.1; four scenarios, two types, ten repeats.
    assert len(campaign.runs) == (4 + 1) * 4 * 2 * 10
    for run in campaign.runs:
        (phase,) = run.experiment.effective_phases()
        rates = [policer.rate for policer in phase.policers]
        assert f"{sum(rates) // 10**6} Mbit/s" == run.cell["rate"]
        assert len(rates) == {"common": 1, "non-common": 2}[run.cell["policer"]]
        for policer in phase.policers:
            assert policer.burst.bytes_at(policer.rate) == policer.rate * 20 // 8000
        offered = sum(flow.rate or 0 for flow in run.experiment.flows)
        assert offered + sum(flow.rate for flow in run.experiment.background) == 105_000_000
        ccs = [run.experiment.flows[0].congestion_control, run.experiment.background[0].congestion_control]
        assert " with ".join(cc.upper() for cc in ccs) == run.cell["scenario"]


def test_bbr_dominant_has_n_low_latency_flows_of_ten_and_a_buffer_of_a_megabyte() -> None:
    campaign = load_campaign(EXPERIMENTS / "bbr-dominant.yaml")
    assert {run.cell["n"] for run in campaign.runs} == {str(n) for n in range(1, 11)}
    for run in campaign.runs:
        ccs = [flow.congestion_control for flow in run.experiment.flows]
        assert len(ccs) == 10
        assert ccs.count(run.cell["low_latency"]) == int(run.cell["n"]) == 10 - ccs.count("cubic")
        assert queue_bytes(run.experiment, "dstn") == 1_000_000
        assert list(base_round_trips(run.experiment, "dstn")) == [40_000_000]
        assert run.traffic_s == 120


def test_the_bbr_or_cubic_table_has_the_conditions_of_its_row_labels() -> None:
    campaign = load_campaign(EXPERIMENTS / "bbr-or-cubic-table.yaml")
    assert len({run.cell["row"] for run in campaign.runs}) == 8 + 1
    for run in campaign.runs:
        delay, buffer, loss, bandwidth = run.cell["row"].split(", ")
        client = run.experiment.hosts["client"]
        assert list(base_round_trips(run.experiment, "client")) == [parse_time(delay)]
        assert queue_bytes(run.experiment, "client") == parse_size(buffer)
        assert (client.loss, client.rate) == (parse_share(loss), parse_rate(bandwidth))
        assert [flow.congestion_control for flow in run.experiment.flows] == [run.cell["cc"]]


def test_when_to_use_bbr_has_the_bandwidth_rtt_buffer_and_loss_of_each_part() -> None:
    campaign = load_campaign(EXPERIMENTS / "when-to-use-bbr.yaml")
    cells: dict[str, int] = {}
    for (run, *_), part in ((its, its[0].cell["part"]) for its in campaign.cells()):
        cells[part] = cells.get(part, 0) + 1
        client = run.experiment.hosts["client"]
        alone = {
            "rtt": run.cell.get("rtt", ""),
            "bandwidth": run.cell.get("bandwidth", ""),
            "loss": "0 %",
        }
        wanted = {
            "alone": alone,
            "alone again": alone,
            "share": {"rtt": "20 ms", "bandwidth": "1 Gbit/s", "loss": "0 %"},
            "cliff": {"rtt": "25 ms", "bandwidth": "100 Mbit/s", "loss": run.cell.get("loss", "")},
        }[part]
        buffer = run.cell.get("buffer") or run.cell.get("shared_buffer") or "10 MB"
        assert list(base_round_trips(run.experiment, "client")) == [parse_time(wanted["rtt"])]
        assert (client.rate, client.loss) == (parse_rate(wanted["bandwidth"]), parse_share(wanted["loss"]))
        assert queue_bytes(run.experiment, "client") == parse_size(buffer)
        assert len(run.experiment.flows) == (2 if part == "share" else 1)
    assert cells == {"alone": 2 * 8 * 8 * 2, "alone again": 2 * 2 * 2, "share": 9, "cliff": 2 * 11}


def test_wehey_bbr_queue_is_the_wehey_grid_with_shaped_host_links_instead_of_policers() -> None:
    campaign = load_campaign(EXPERIMENTS / "wehey-bbr-queue.yaml")
    plain = load_campaign(EXPERIMENTS / "wehey-bbr.yaml")
    assert [run.key for run in campaign.runs] == [run.key for run in plain.runs]
    for run in campaign.runs:
        experiment = run.experiment
        policed = {name: host for name, host in experiment.hosts.items() if host.rate is not None}
        assert f"{sum(host.rate or 0 for host in policed.values()) // 10**6} Mbit/s" == run.cell["rate"]
        for name, host in policed.items():
            assert queue_bytes(experiment, name) == (host.rate or 0) * 20 // 8000
        phase = make_plan(experiment, attachment_of(experiment)).phase("main")
        one, other = (FlowKey(flow.source, flow.destination) for flow in experiment.flows)
        assert phase.truth(one, other) == {"common": "shared", "non-common": "separate"}[run.cell["policer"]]
