# SPDX-License-Identifier: Apache-2.0
"""`simple_switch_CLI` on weir-switch and bmv2; `simple_switch_scenario.py` runs in the sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from weir.topo.bmv2proc import bmv2_problem
from weir_tests.cli.simple_switch_scenario import COMMANDS, FRAMES, RATE_PPS
from weir_tests.topo.sandboxed import result_of

Seen = dict[str, Any]
PROMPT = "RuntimeCmd: "


@pytest.fixture(name="seen", scope="module")
def _seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return result_of("weir_tests.cli.simple_switch_scenario", tmp_path_factory.mktemp("simple-switch"))


def answers(output: str) -> list[str]:
    """What each command printed."""
    return output.split(PROMPT)[1:]


def with_sorted_groups(output: str) -> list[str]:
    """The answers; bmv2 lists multicast groups in no order."""
    return ["\n".join(sorted(a.split("\n"))) if "MC ENTRIES" in a else a for a in answers(output)]


def test_each_command_gets_an_answer_and_the_last_one_ends_the_program_with_0(seen: Seen) -> None:
    output, _, code = seen["softswitch"]["commands"]
    assert code == 0
    assert output.startswith(
        "Obtaining JSON from switch...\nDone\nControl utility for runtime P4 table manipulation\n"
    )
    assert len(answers(output)) == len(COMMANDS.read_text().splitlines()) + 1


def test_bmv2_answers_the_same_to_every_command(seen: Seen) -> None:
    if bmv2_problem() is not None:
        pytest.skip(f"bmv2: {bmv2_problem()}")
    ours, bmv2 = seen["softswitch"]["commands"], seen["bmv2"]["commands"]
    pairs = zip(
        COMMANDS.read_text().splitlines(),
        with_sorted_groups(ours[0]),
        with_sorted_groups(bmv2[0]),
        strict=False,
    )
    assert [(line, own, other) for line, own, other in pairs if own != other] == []
    assert ours[1:] == bmv2[1:]
    assert seen["softswitch"]["same_program"] == seen["bmv2"]["same_program"]


def test_a_port_comes_and_goes(seen: Seen) -> None:
    output, _, code = seen["softswitch"]["ports"]
    added, twice, shown, removed, rest, _ = answers(output)
    assert (added, twice, removed, code) == ("", "Invalid device manager operation (ERROR)\n", "", 0)
    head = "  port #       iface name       status  extra info\n" + "=" * 50 + "\n"
    assert shown == f"{head}    1              d1             UP    \n"
    assert rest == head


def test_json_of_another_program_is_warned_of(seen: Seen) -> None:
    output, _, code = seen["softswitch"]["other_program"]
    assert "don't have the same md5 sum" in output
    assert code == 0
    assert "md5" not in seen["softswitch"]["same_program"][0]


def test_without_a_switch_the_program_says_so_and_ends_with_1(seen: Seen) -> None:
    output, errors, code = seen["no_switch"]
    assert output == (
        "Could not connect to thrift client on port 9090\n"
        "Make sure the switch is running and that you have the right port\n"
    )
    assert (errors, code) == ("", 1)


def test_commands_steer_frames_at_the_rate_of_the_queue(seen: Seen) -> None:
    router = seen["router"]
    assert "Invalid" not in router["said"][0]
    (frame,) = router["frames"]
    assert frame.startswith("020000000004" + "020000000002" + "0800" + "4500")
    # One frame leaves at once, then one each twentieth of a second; a busy machine may begin late.
    assert router["seconds"] > (FRAMES - 2) / RATE_PPS


def test_bmv2_sends_the_same_frames(seen: Seen) -> None:
    if bmv2_problem() is not None:
        pytest.skip(f"bmv2: {bmv2_problem()}")
    assert seen["router"]["frames"] == seen["bmv2_router"]["frames"]
    assert seen["router"]["said"] == seen["bmv2_router"]["said"]
