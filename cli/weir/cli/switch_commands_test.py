# SPDX-License-Identifier: Apache-2.0
"""`weir plan`, `apply`, `status` and `watch` on weir-switch; `switch_scenario.py` runs in the sandbox."""

import json
from typing import Any

import pytest

from weir.cli.switch_scenario import FRAMES
from weir.topo.sandbox import run_in_sandbox, sandbox_problem
from weir.topo.tools import ToolMissingError, find_own_program

Seen = dict[str, Any]


@pytest.fixture(name="seen", scope="module")
def _seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    try:
        find_own_program("weir-switch")
    except ToolMissingError as error:
        pytest.skip(str(error))
    problem = sandbox_problem()
    if problem is not None:
        pytest.skip(problem)
    folder = tmp_path_factory.mktemp("commands")
    assert run_in_sandbox("weir.cli.switch_scenario", [str(folder)]) == 0
    seen: Seen = json.loads((folder / "result.json").read_text())
    return seen


def one_line(answer: Seen) -> str:
    assert answer["said"] is None
    (line,) = answer["stderr"].splitlines()
    assert isinstance(line, str)
    return line


def test_a_plan_of_an_empty_switch_is_everything_and_changes_nothing(seen: Seen) -> None:
    plan = seen["first_plan"]["said"]
    assert plan["pipeline_loaded"] is False
    assert plan["changes"] == len(plan["insert"]) > 10
    assert seen["first"]["said"]["pipeline_pushed"] is True
    # Meter cells always exist, so that they are modified.
    assert seen["first"]["said"]["changes"] == plan["changes"]


def test_a_second_apply_changes_nothing(seen: Seen) -> None:
    assert seen["again"]["said"]["changes"] == 0
    assert seen["again"]["said"]["pipeline_pushed"] is False


def test_one_changed_policer_is_one_changed_cell(seen: Seen) -> None:
    for step in ("plan", "changed"):
        said = seen[step]["said"]
        assert (said["insert"], said["delete"]) == ([], [])
        (cell,) = said["modify"]
        assert cell["entity"] == "meter policer cell 1"
        assert (cell["before"]["cir"], cell["cir"]) == (1000, 2000)
    assert seen["still"]["said"]["changes"] == 0, "a plan changed the switch"


def test_status_shows_what_the_switch_has_and_counted(seen: Seen) -> None:
    status = seen["status"]["said"]
    assert status["as_planned"] is True
    assert status["tables"]["classify"] == 2
    assert status["policers"][0]["read_back"]["cir"] == 2000
    assert status["policers"][0]["packets_met"] == 0


@pytest.mark.parametrize(
    ("case", "code", "line"),
    [
        ("unreachable", 3, "weir: no P4Runtime at 127.0.0.1:9: "),
        ("wrong_device", 4, "weir: the switch at 127.0.0.1:9559 has no device 7: "),
        ("wrong_device_read", 4, "weir: the switch at 127.0.0.1:9559 has no device 7: "),
        ("not_primary", 5, "weir: another controller of device 1 at 127.0.0.1:9559 has our election id 2; "),
        ("status_before", 6, "weir: the switch at 127.0.0.1:9559 is not ready: "),
        ("mismatch", 6, "weir: the switch at 127.0.0.1:9559 runs another pipeline "),
    ],
)
def test_each_failure_is_one_line_and_an_exit_code_of_its_own(
    seen: Seen, case: str, code: int, line: str
) -> None:
    assert one_line(seen[case]).startswith(line)
    assert seen[case]["code"] == code


def test_another_pipeline_is_replaced_when_that_is_asked_for(seen: Seen) -> None:
    assert seen["replaced"]["code"] == 0
    assert seen["replaced"]["said"]["policers"][0]["meter"] == "sr3c"


def test_a_table_that_is_too_small_is_named_before_anything_is_written(seen: Seen) -> None:
    assert seen["full"]["code"] == 7
    *_, line = seen["full"]["stderr"].splitlines()
    assert line == "weir: phase main needs 1099 entries in table classify; valid: at most 1024"


def test_a_backup_takes_over_without_touching_the_tables(seen: Seen) -> None:
    print(f"took over {seen['fail_over_s']:.3f} s after the primary was killed")
    assert seen["taken_over"]["updates"] == 0
    assert seen["taken_over"]["pipeline_loaded"] is False
    assert seen["kept_counting"] == FRAMES


def test_a_switch_that_restarts_is_configured_again_and_the_break_in_its_counters_recorded(
    seen: Seen,
) -> None:
    print(f"configured {seen['restart_s']:.3f} s after the switch was back")
    assert seen["configured_again"]["pipeline_loaded"] is True
    assert seen["configured_again"]["updates"] == seen["configured"]["updates"]
    before, after = seen["discontinuity"]["before"]["one"], seen["discontinuity"]["after"]["one"]
    assert (before["packets_met"], after["packets_met"]) == (FRAMES, 0)
    assert seen["status_again"]["said"]["as_planned"] is True


def test_every_event_is_in_the_log(seen: Seen) -> None:
    assert seen["logged"] == [
        "waiting",
        "primary",
        "configured",
        "lost",
        "primary",
        "discontinuity",
        "configured",
    ]
    assert seen["interrupted"] == 130


def test_flows_without_a_bucket_are_counted_and_silent_ones_leave_theirs(seen: Seen) -> None:
    assert seen["exhausted"]["flows_without_cell"] == 1
    assert seen["with_learned"]["said"]["changes"] == 0, "learned flows are no difference to the plan"
    assert seen["adopted"]["updates"] == 0
