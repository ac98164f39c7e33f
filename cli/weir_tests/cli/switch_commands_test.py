# SPDX-License-Identifier: Apache-2.0
"""`weir plan`, `apply`, `status` and `watch` on weir-switch; `switch_scenario.py` runs in the sandbox."""

import re
from pathlib import Path
from typing import Any

import pytest

from weir.controlplane.config import parse_experiment
from weir.topo.bmv2proc import bmv2_problem
from weir_tests.cli.switch_scenario import FRAMES
from weir_tests.topo.sandboxed import result_of

Seen = dict[str, Any]
LIMIT_S = 2
"""In which a backup takes over, and a restarted switch is configured; docs/control-plane.md promises it."""


@pytest.fixture(name="seen", scope="module")
def _seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return result_of("weir_tests.cli.switch_scenario", tmp_path_factory.mktemp("commands"))


def one_line(answer: Seen) -> str:
    assert answer["output"] is None
    (line,) = answer["stderr"].splitlines()
    assert isinstance(line, str)
    return line


def test_a_plan_for_an_empty_switch_inserts_everything_and_writes_nothing(seen: Seen) -> None:
    plan = seen["first_plan"]["output"]
    assert plan["pipeline_loaded"] is False
    assert plan["changes"] == len(plan["insert"]) > 10
    assert seen["first"]["output"]["pipeline_pushed"] is True
    # Meter cells always exist, so they are modified and not inserted.
    assert seen["first"]["output"]["changes"] == plan["changes"]


def test_a_second_apply_changes_nothing(seen: Seen) -> None:
    assert seen["again"]["output"]["changes"] == 0
    assert seen["again"]["output"]["pipeline_pushed"] is False


def test_one_changed_policer_is_one_changed_cell(seen: Seen) -> None:
    for step in ("plan", "changed"):
        output = seen[step]["output"]
        assert (output["insert"], output["delete"]) == ([], [])
        (cell,) = output["modify"]
        assert cell["entity"] == "meter policer cell 1"
        assert (cell["before"]["cir"], cell["cir"]) == (1000, 2000)
    assert seen["still"]["output"]["changes"] == 0, "a plan changed the switch"


def test_status_shows_tables_meters_and_counters(seen: Seen) -> None:
    status = seen["status"]["output"]
    assert status["as_planned"] is True
    assert status["tables"]["classify"] == 2
    assert status["policers"][0]["read_back"]["cir"] == 2000
    assert status["policers"][0]["packets_met"] == 0


def link_of_b(answer: Seen) -> Seen:
    """The entry for the link of port 2 in an answer, without its key."""
    (link,) = [entity for entity in answer["output"]["modify"] if entity["entity"].startswith("link")]
    assert isinstance(link, dict)
    assert link.pop("entity") == "link of port 2"
    return link


def test_links_are_planned_and_set(seen: Seen) -> None:
    links = seen["links"]
    wanted = {"delay": "5 ms", "rate": "50 Mbit/s", "loss": "0.5 %", "queue": "256 kB", "deflect_to": "3"}
    for step in ("plan", "first"):
        link = link_of_b(links[step])
        assert wanted.items() <= link.items()
        assert (link["before"]["rate"], link["before"]["delay"]) == ("none", "0 ns")
    assert links["again"]["output"]["changes"] == 0


def test_a_link_changed_by_another_program_is_shown_and_restored(seen: Seen) -> None:
    links = seen["links"]
    for step in ("foreign", "restored"):
        before = link_of_b(links[step])["before"]
        assert (before["rate"], before["loss"]) == ("1 Mbit/s", "0 %")
        assert links[step]["output"]["changes"] == 1
    (_, port, _) = links["status"]["ports"]
    assert port["link"]["rate"] == "50 Mbit/s"


def test_status_has_the_counters_and_queue_occupancy_of_each_port(seen: Seen) -> None:
    status = seen["links"]["status"]
    (policer, _), (a, b, collector) = status["policers"], status["ports"]
    red = policer["counters"]["red"]["packets"]
    assert [port["names"] for port in (a, b, collector)] == [["a"], ["b"], ["collector"]]
    # All frames enter at port a. Those that are not red leave at port b, whose link loses some.
    assert a["received"]["packets"] == policer["packets_met"] == FRAMES
    assert b["sent"]["packets"] == FRAMES - red
    # Reports are not in the counters of the collector's port.
    assert (status["reports_sent"], collector["sent"]["packets"]) == (red, 0)
    assert (b["waiting_packets"], b["waiting_bytes"], b["queue_drops"]) == (0, 0, 0)
    assert b["link_lost"] <= b["sent"]["packets"]


def test_a_link_of_a_missing_port_is_an_error_that_names_it(seen: Seen) -> None:
    assert one_line(seen["links"]["no_port"]) == (
        "weir: link of port 9: the switch at 127.0.0.1:9559 has no such port; valid: its ports (1, 2, 3)"
    )
    assert seen["links"]["no_port"]["code"] == 2


def test_link_options_and_experiment_file_have_the_same_defaults(seen: Seen) -> None:
    assert seen["links"]["same"]["output"]["modify"] == []


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("│").split("│")]


def test_the_live_view_shows_rate_colours_drops_and_queue_of_a_policer(seen: Seen) -> None:
    _, rate, burst, effective, green, yellow, red, passed, dropped, queue = cells(seen["live"]["row"])
    assert (rate, burst, effective, yellow) == ("8 kbit/s", "20 kB", "8 kbit/s", "0")
    # The bucket holds 20 frames of 1000 B.
    assert int(green) >= 20
    assert int(green) + int(red) <= FRAMES
    assert passed.endswith("bit/s")
    assert dropped.replace(",", "").isdigit()
    # The link transmits one frame per 0.4 s.
    assert queue.endswith("B")
    assert seen["live"]["interrupted"] == 130


def test_a_policer_polices_ipv6_if_its_hosts_have_ipv6_addresses(seen: Seen) -> None:
    (policer,) = seen["ipv6"]["status"]["policers"]
    # A bucket of 20,000 B that gains 1 B/ms holds 20 frames of 1000 B, and one more each second.
    assert policer["packets_met"] == FRAMES
    green, red = (policer["counters"][colour]["packets"] for colour in ("green", "red"))
    assert green + red == FRAMES
    assert 20 <= green < FRAMES
    assert seen["ipv6"]["status"]["ports"][1]["sent"]["packets"] == green + 2 * FRAMES


@pytest.mark.parametrize(
    ("case", "code", "line"),
    [
        ("unreachable", 3, "weir: no P4Runtime at 127.0.0.1:9: "),
        ("wrong_device", 4, "weir: the switch at 127.0.0.1:9559 has no device 7: "),
        ("wrong_device_read", 4, "weir: the switch at 127.0.0.1:9559 has no device 7: "),
        ("status_before", 6, "weir: the switch at 127.0.0.1:9559 is not ready: "),
        ("mismatch", 6, "weir: the switch at 127.0.0.1:9559 runs another pipeline "),
    ],
)
def test_each_failure_is_one_line_and_has_a_distinct_exit_code(
    seen: Seen, case: str, code: int, line: str
) -> None:
    assert one_line(seen[case]).startswith(line)
    assert seen[case]["code"] == code


def test_a_controller_that_is_not_primary_fails_with_exit_code_5(seen: Seen) -> None:
    answer = seen["kept"]["softswitch"]["not_primary"]
    assert one_line(answer).startswith("weir: another controller of device 1 at 127.0.0.1:9559 has our ")
    assert answer["code"] == 5


def test_load_pipeline_replaces_another_pipeline(seen: Seen) -> None:
    assert seen["replaced"]["code"] == 0
    assert seen["replaced"]["output"]["policers"][0]["meter"] == "sr3c"


def test_a_table_that_is_too_small_is_an_error_before_anything_is_written(seen: Seen) -> None:
    assert seen["full"]["code"] == 7
    *_, line = seen["full"]["stderr"].splitlines()
    assert line == "weir: phase main needs 1099 entries in table classify; valid: at most 1024"


def keeping(seen: Seen, target: str) -> Seen:
    if target not in seen["kept"]:
        pytest.skip(f"bmv2: {bmv2_problem()}")
    kept: Seen = seen["kept"][target]
    return kept


on_both = pytest.mark.parametrize("target", ["softswitch", "bmv2"])


@on_both
def test_a_backup_takes_over_without_touching_the_tables(seen: Seen, target: str) -> None:
    kept = keeping(seen, target)
    print(f"{target}: took over {kept['fail_over_s']:.3f} s after the primary was killed")
    assert 0 < kept["fail_over_s"] < LIMIT_S
    assert kept["taken_over"]["updates"] == 0
    assert kept["taken_over"]["pipeline_loaded"] is False
    assert kept["kept_counting"] == kept["met"] <= FRAMES


@on_both
def test_a_superseded_primary_logs_it_and_waits_until_the_other_disconnects(seen: Seen, target: str) -> None:
    kept = keeping(seen, target)
    assert kept["preempted"]["output"]["changes"] == 0
    assert "another controller is primary of device 1 " in kept["superseded"]["reason"]
    assert (kept["returned"]["updates"], kept["returned"]["pipeline_loaded"]) == (0, False)


@on_both
def test_a_restarted_switch_is_configured_again_and_the_counter_discontinuity_is_logged(
    seen: Seen, target: str
) -> None:
    kept = keeping(seen, target)
    print(f"{target}: configured {kept['restart_s']:.3f} s after the switch was back")
    assert kept["restart_s"] < LIMIT_S
    assert kept["configured_again"]["pipeline_loaded"] is True
    assert kept["configured_again"]["updates"] == kept["configured"]["updates"]
    before, after = (kept["discontinuity"][when]["one"]["packets_met"] for when in ("before", "after"))
    assert (before, after) == (kept["met"], 0)
    assert kept["status_again"]["output"]["as_planned"] is True


@on_both
def test_status_has_drops_by_reason(seen: Seen, target: str) -> None:
    kept = keeping(seen, target)
    # 70 is the policer's reason; a bucket of 20,000 B does not hold all frames.
    assert kept["drops"] == ({"70": kept["red"]} if kept["red"] else {})


@on_both
def test_every_event_is_in_the_log(seen: Seen, target: str) -> None:
    kept = keeping(seen, target)
    assert kept["logged"] == [
        *("waiting", "primary", "configured"),
        *("superseded", "waiting", "primary", "configured"),
        *("lost", "primary", "discontinuity", "configured"),
    ]
    assert kept["interrupted"] == 130


def test_apply_on_bmv2_is_idempotent_and_writes_only_changes(seen: Seen) -> None:
    if "bmv2" not in seen:
        pytest.skip(f"bmv2: {bmv2_problem()}")
    bmv2 = seen["bmv2"]
    assert bmv2["first"]["output"]["changes"] > 10
    assert bmv2["again"]["output"]["changes"] == 0
    (cell,) = bmv2["changed"]["output"]["modify"]
    assert (cell["entity"], cell["cir"]) == ("meter policer cell 1", 2000)
    assert bmv2["status"]["output"]["as_planned"] is True


def test_queues_of_bmv2_are_set_in_packets_with_a_note(seen: Seen) -> None:
    if "bmv2" not in seen:
        pytest.skip(f"bmv2: {bmv2_problem()}")
    bmv2 = seen["bmv2"]
    assert bmv2["first"]["output"]["queues"] == [
        {"host": "b", "port": 2, "packets_per_s": 826, "packets": 50}
    ]
    (note,) = bmv2["first"]["output"]["notes"]
    assert "bmv2 serves 826 packets/s, 10004.512 kbit/s of frames of 1514 B" in note
    assert bmv2["no_thrift"]["code"] == 2
    assert "weir: hosts.b.rate: bmv2's queues are set through Thrift; " in one_line(bmv2["no_thrift"])
    for case, port in (("nobody_on_thrift", 9), ("p4runtime_on_thrift", 9559)):
        assert bmv2[case]["code"] == 3
        line = one_line(bmv2[case])
        assert line.startswith(f"weir: no bmv2 on Thrift port {port}; valid: its --thrift-port (")
        assert line.endswith(
            "); its tables and meters are as planned, its queues may not be; valid: apply again"
        )
    assert one_line(bmv2["unsupported"]).startswith("weir: policer s of phase main: no sr3c meter; ")


def test_a_watch_of_bmv2_queues_needs_their_thrift_port(seen: Seen) -> None:
    kept = keeping(seen, "bmv2")
    assert kept["no_thrift"]["code"] == 2
    assert "weir: hosts.b.rate: bmv2's queues are set through Thrift; " in one_line(kept["no_thrift"])


def test_the_documented_commands_print_what_the_page_says(seen: Seen) -> None:
    assert len(seen["documented"]) >= 5
    for example in seen["documented"]:
        # A line "  …" matches changes that the page omits.
        pattern = re.escape(example["expected"]).replace(re.escape("  …\n"), r"(?:  .*\n)*")
        assert re.fullmatch(pattern, example["printed"]), example


def test_the_documented_experiments_are_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "control-plane.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [parse_experiment(block).name for block in blocks] == ["upstream", "colours"]


def test_controller_and_switch_authenticate_by_certificates(seen: Seen) -> None:
    if "tls" not in seen:
        pytest.skip("openssl: not on PATH; sudo apt-get install openssl")
    assert seen["tls"]["apply"]["code"] == 0
    assert seen["tls"]["status"]["output"]["as_planned"] is True


@pytest.mark.parametrize(
    ("case", "code", "line"),
    [
        ("stranger", 8, "weir: no TLS with the switch at 127.0.0.1:9559: "),
        ("no_certificate", 8, "weir: no TLS with the switch at 127.0.0.1:9559: "),
        ("other_authority", 8, "weir: no TLS with the switch at 127.0.0.1:9559: "),
        ("other_name", 8, "weir: no TLS with the switch at localhost:9559: "),
        ("plain", 3, "weir: no P4Runtime at 127.0.0.1:9559: "),
        ("half", 2, "weir: --tls-cert and --tls-key go together; valid: both, or neither"),
    ],
)
def test_a_tls_error_is_one_line_and_has_its_exit_code(seen: Seen, case: str, code: int, line: str) -> None:
    if "tls" not in seen:
        pytest.skip("openssl: not on PATH; sudo apt-get install openssl")
    assert one_line(seen["tls"][case]).startswith(line)
    assert seen["tls"][case]["code"] == code
    assert ("(--tls-ca)" in one_line(seen["tls"][case])) == (case == "plain")


def test_flows_without_a_bucket_are_counted_and_idle_flows_release_theirs(seen: Seen) -> None:
    assert seen["exhausted"]["flows_without_cell"] == 1
    assert seen["with_learned"]["output"]["changes"] == 0, "learned flows count as changes"
    assert seen["adopted"]["updates"] == 0
