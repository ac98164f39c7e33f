# SPDX-License-Identifier: Apache-2.0
"""`weir apply --load-pipeline` on switches that ran it before; `loaded_again_scenario.py` runs it."""

from __future__ import annotations

from typing import Any

import pytest

from weir.topo.bmv2proc import bmv2_problem
from weir_tests.cli.loaded_again_scenario import POLICED
from weir_tests.controlplane.other_program import COOKIE
from weir_tests.topo.sandboxed import result_of

Seen = dict[str, Any]
LOADED = ("first", "again", "thrice")


@pytest.fixture(scope="module", name="every")
def _every(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return result_of("weir_tests.cli.loaded_again_scenario", tmp_path_factory.mktemp("loaded"))


@pytest.fixture(name="seen", params=["softswitch", "bmv2"])
def _seen(every: Seen, request: pytest.FixtureRequest) -> Seen:
    if request.param not in every:
        pytest.skip(f"bmv2: {bmv2_problem()}")
    seen: Seen = every[request.param]
    return seen


def test_the_program_is_loaded_and_all_of_the_plan_is_written_again(seen: Seen) -> None:
    for when in LOADED:
        assert seen[when]["code"] == 0, seen[when]["stderr"]
        assert seen[when]["output"]["pipeline_pushed"] is True
        assert seen[when]["output"]["changes"] == seen["first"]["output"]["changes"] > 5
    assert seen["unchanged"]["output"]["pipeline_pushed"] is False
    assert seen["unchanged"]["output"]["changes"] == 0
    assert seen["status"]["output"]["as_planned"] is True


def test_a_packet_is_reported_once_however_often_the_program_was_loaded(seen: Seen) -> None:
    reports = {when: seen[when]["reports"] for when in LOADED}
    print(reports)
    for copies in reports.values():
        assert set(copies) <= {0, 1}
        # Two fit the bucket, and one more each second, which a slow machine may need.
        assert sum(copies) >= len(POLICED) // 2


def test_a_packet_is_flooded_once_however_often_the_program_was_loaded(seen: Seen) -> None:
    assert [seen[when]["flooded"] for when in LOADED] == [1, 1, 1]


def test_another_program_is_kept_without_the_option(seen: Seen) -> None:
    for case, cookie in (("refused", COOKIE), ("refused_without_cookie", 0)):
        assert seen[case]["code"] != 0
        assert f"runs another pipeline (cookie {cookie}, " in seen[case]["stderr"]
