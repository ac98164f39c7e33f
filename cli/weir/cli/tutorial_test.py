# SPDX-License-Identifier: Apache-2.0
"""The files in docs/tutorial.md are valid; its example of a mistake gives the error that it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir.campaign.load import parse_campaign
from weir.controlplane.config import ConfigError, parse_experiment
from weir.runner.checks import check_runnable

TUTORIAL = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text(encoding="utf-8")
FIRST, BUFFERS = re.findall(r"```yaml\n(.*?)```", TUTORIAL, re.DOTALL)


def test_the_first_experiment_is_runnable_and_its_typo_gives_the_documented_error() -> None:
    check_runnable(parse_experiment(FIRST), Path("first.yaml"))
    with pytest.raises(ConfigError) as error:
        parse_experiment(FIRST.replace("1 BDP", "1 BPD"), "first.yaml")
    assert f"weir: {error.value.lines[0]}\n" in TUTORIAL


def test_the_first_campaign_is_runnable_and_has_the_documented_duration() -> None:
    campaign = parse_campaign(BUFFERS)
    for run in campaign.runs:
        check_runnable(run.experiment, Path("buffers.yaml"))
    assert (len(campaign.runs), sum(run.traffic_s for run in campaign.runs)) == (6, 60)
