# SPDX-License-Identifier: Apache-2.0
"""The campaigns that weir ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.campaign.config import campaign_schema_text
from weir.campaign.estimate import Estimate
from weir.campaign.load import load_campaign
from weir.cli.runnable import check_runnable

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
CAMPAIGNS = [path for path in sorted(EXPERIMENTS.glob("*.yaml")) if "\nmatrix:" in path.read_text()]


def test_the_committed_schema_is_the_one_that_the_models_make() -> None:
    committed = (EXPERIMENTS / "campaign.schema.json").read_text()
    assert committed == campaign_schema_text(), (
        "stale: run `weir schema --campaign > experiments/campaign.schema.json`"
    )


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_every_run_of_a_shipped_campaign_can_be_run_and_the_quick_grid_fits_into_half_an_hour(
    path: Path,
) -> None:
    whole, quick = load_campaign(path), load_campaign(path, quick=True)
    for run in (*whole.runs, *quick.runs):
        check_runnable(run.experiment, path)
    seconds = Estimate().seconds(quick.runs, [], 1)
    print(f"{len(quick.runs)} of {len(whole.runs)} runs, {seconds / 60:.0f} minutes")
    assert seconds <= 30 * 60


def test_the_wehey_grid_is_the_published_one() -> None:
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
