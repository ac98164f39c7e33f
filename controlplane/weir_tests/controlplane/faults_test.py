# SPDX-License-Identifier: Apache-2.0
"""Each write to weir-switch and to bmv2 fails in turn; `faults_scenario.py` runs in the sandbox."""

from typing import Any

import pytest

from weir.topo.bmv2proc import bmv2_problem
from weir_tests.controlplane.faulty_proxy import PUSH, SET_LINK, WRITE
from weir_tests.topo.sandboxed import result_of

Seen = dict[str, Any]


@pytest.fixture(name="every", scope="module")
def _every(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return result_of("weir_tests.controlplane.faults_scenario", tmp_path_factory.mktemp("faults"))


@pytest.fixture(name="seen", params=["softswitch", "bmv2"])
def _seen(every: Seen, request: pytest.FixtureRequest) -> Seen:
    if request.param not in every:
        pytest.skip(f"bmv2: {bmv2_problem()}")
    seen: Seen = every[request.param]
    return seen | {"target": request.param}


def of_kind(seen: Seen, *kinds: str) -> list[Seen]:
    applies = [apply for apply in seen["applies"] if apply["kind"] in kinds]
    assert applies
    return applies


def test_every_write_of_an_apply_failed_once(seen: Seen) -> None:
    calls = [WRITE, SET_LINK, SET_LINK] if seen["target"] == "softswitch" else [WRITE] * 4
    assert seen["calls"] == calls
    # Verdicts, reports and meter cells have the cell as their key: of each, one is new and one modified.
    assert seen["updates"] == 8
    assert len(seen["applies"]) == 3 * len(calls) + seen["updates"]


def test_no_failure_is_silent(seen: Seen) -> None:
    assert all(apply["said"] for apply in seen["applies"])


def test_the_number_of_applied_updates_is_exact_when_the_switch_refuses_one(seen: Seen) -> None:
    atomic = seen["target"] == "softswitch"
    for apply in of_kind(seen, "spoil"):
        applied = apply["total"] - apply["left"]
        assert apply["applied"] == applied
        if applied == 0:
            assert apply["unchanged"]
            assert apply["said"].endswith("; nothing was changed")
        else:
            assert not atomic
            assert f"; {applied} of {apply['total']} updates are on the switch, the others " in apply["said"]


def test_a_write_without_a_reply_is_reported_as_unknown(seen: Seen) -> None:
    for apply in of_kind(seen, "cut before", "cut after"):
        applied = apply["total"] - apply["left"]
        assert apply["applied"] <= applied
        assert (apply["applied"] < applied) == (apply["kind"] == "cut after")
        known = f"at least {apply['applied']} of {apply['total']} updates are on the switch"
        assert f"; {known}, the others are not known; " in apply["said"]
        assert apply["cause"] == "SwitchUnreachableError"


def test_a_refused_call_leaves_the_earlier_ones_applied(seen: Seen) -> None:
    for apply in of_kind(seen, "refuse"):
        assert apply["applied"] == apply["total"] - apply["left"]
        assert ": INTERNAL: injected; " in apply["said"]


def test_a_second_apply_writes_what_is_missing_and_no_more(seen: Seen) -> None:
    for apply in seen["applies"]:
        assert (apply["again"], apply["left_then"]) == (apply["left"], 0)


def test_a_pipeline_that_may_have_been_loaded_is_reported_as_unknown(seen: Seen) -> None:
    pushes = seen["pushes"]
    assert all(push["calls"] == [PUSH] for push in pushes.values())
    assert pushes["refuse"]["said"].endswith(" refused the pipeline: INTERNAL: injected")
    assert [pushes[kind]["unchanged"] for kind in ("refuse", "cut before", "cut after")] == [
        True,
        True,
        False,
    ]
    for kind in ("cut before", "cut after"):
        assert "; it is not known whether the pipeline was loaded, which empties " in pushes[kind]["said"]
    assert all(push["again"] > 0 == push["left_then"] for push in pushes.values())
