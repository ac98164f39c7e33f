# SPDX-License-Identifier: Apache-2.0
"""`weir campaign` on two testbeds with real sshds at once; see `testbed_campaign_scenario.py`."""

from __future__ import annotations

import itertools
import shutil
from typing import Any

import pytest

from weir.topo.tools import search_path
from weir_tests.topo.sandboxed import result_of


@pytest.fixture(scope="module", name="both")
def _both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    for name, package in {"sshd": "openssh-server", "sudo": "sudo"}.items():
        if shutil.which(name, path=search_path()) is None:
            pytest.skip(f"not installed: {name}; sudo apt-get install {package}")
    return result_of("weir_tests.cli.testbed_campaign_scenario", tmp_path_factory.mktemp("both"))


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether flows of both ran at the same time."""
    (began, ended), (other_began, other_ended) = one["times"], other["times"]
    return bool(began < other_ended and other_began < ended)


@pytest.mark.parametrize("how", ["alone", "workers"])
def test_two_testbeds_make_runs_at_once_and_each_one_at_a_time(both: dict[str, Any], how: str) -> None:
    found = both[how]
    assert found["code"] == 0, found["said"]
    runs = found["runs"]
    assert len(runs) == 4
    for run in runs:
        assert run["valid"], run["reasons"]
        assert run["law"]["unexplained"] == run["law"]["contradictions"] == 0
        assert run["law"]["reported_drops"] == run["law"]["missing"] > 50
        assert not run["pcap"], "the experiment, or the campaign, keeps results only"
        assert all(came < size / 8 for size, came in run["bytes"])
    assert {run["testbed"] for run in runs} == {"rack1", "rack2"}
    pairs = [pair for pair in itertools.combinations(runs, 2) if overlap(*pair)]
    assert pairs, "no two runs were made at once"
    assert all(one["testbed"] != other["testbed"] for one, other in pairs)
