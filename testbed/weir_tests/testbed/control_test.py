# SPDX-License-Identifier: Apache-2.0
"""However a host's helper ends, its programs end and its changes are undone; what it refuses is one line."""

from dataclasses import replace
from typing import Any

import pytest

from weir_tests.testbed.control_scenarios import REDUCED_RECORDS
from weir_tests.topo.runner import Runner

CONTROL = "weir_tests.testbed.control_scenarios"


def result(runner: Runner, scenario: str) -> dict[str, Any]:
    report = replace(runner, module=CONTROL).result(scenario)
    assert runner.processes() == []
    return report


def test_all_is_put_back_at_the_end_and_after_an_error_and_ctrl_c(any_runner: Runner) -> None:
    done = result(any_runner, "asked")
    assert done["effective"]
    assert done["again"] == [False] * 4  # what is so already is no change
    assert done["capture"][0] == 0
    assert done["capture"][1].startswith("tcpdump: listening on exp0")
    assert done["first"] == done["second"] == [True, []]
    assert done["failed"] == "a bug"
    assert done["cancelled"] == [True, True, []]
    assert done["left"] == ["capture.pcap", "lock"]  # no journal


def ended_by(runner: Runner, scenario: str, reason: str, said: str) -> None:
    done = result(runner, scenario)
    assert done["effective"]
    assert done["gone"], "a program or the helper still ran"
    assert done["back"], "something was not put back"
    assert done["said"] == f"a: {said}"
    assert done["previous"] == [reason, ["capture", "sink"], 9]  # changes and programs
    assert done["left"] == []


LOST = "the connection was lost; valid: a host that stays reachable"


def test_a_killed_ssh_session_ends_programs_and_undoes_changes(any_runner: Runner) -> None:
    ended_by(any_runner, "cut", "connection lost", LOST)


def test_without_heartbeats_the_watchdog_ends_programs_and_undoes_changes(any_runner: Runner) -> None:
    ended_by(
        any_runner, "silence", "no heartbeat for 1 s", "weir's helper has ended there: no heartbeat for 1 s"
    )


@pytest.mark.parametrize(
    ("scenario", "reason"),
    [
        ("terminated", "signal SIGTERM"),
        ("interrupted", "signal SIGINT"),
        ("hung_up", "signal SIGHUP"),
        ("limit", "time limit of 6 s"),
    ],
)
def test_signals_and_the_time_limit_end_programs_and_undo_changes(
    runner: Runner, scenario: str, reason: str
) -> None:
    ended_by(runner, scenario, reason, f"weir's helper has ended there: {reason}")


def test_heartbeats_that_came_while_the_helper_did_not_run_count(runner: Runner) -> None:
    assert result(runner, "late") == {"changed": True}


def test_a_helper_that_answers_nothing_is_given_up_and_puts_all_back_when_it_runs_again(
    runner: Runner,
) -> None:
    done = result(runner, "stuck")
    assert done["effective"]
    assert done["said"] == ["a: weir's helper there did not answer `sysctl` within 1 s"] * 2
    assert done["back"]


def test_addresses_whose_packets_would_take_another_way_are_refused(any_runner: Runner) -> None:
    done = result(any_runner, "other_ways")
    ssh, bridge = done["said"]["ssh"], done["said"]["bridge"]
    assert ssh.startswith("a: the SSH connection uses 192.168.50.254, which is in the network")
    assert bridge.startswith("a: its packets to 10.33.0.78 would not leave by exp0 but by bridge0")
    assert done["unchanged"]


def test_after_kill_9_of_the_helper_the_next_start_puts_all_back(any_runner: Runner) -> None:
    done = result(any_runner, "killed")
    assert done["effective"]
    assert done["said"] == f"a: {LOST}"
    assert done["gone"]
    assert done["changed"], "nothing was left to undo: the test shows nothing"
    assert done["lived"]
    assert set(done["undone"]) >= {
        "address exp0 10.7.7.7/24",
        "address exp0 2001:db8:7::7/64",
        "offloads exp0",
        "program escaped",
        "route exp0 10.8.0.0/16",
        "sysctl net.ipv4.tcp_ecn",
    }
    assert done["left"] == []
    assert done["back"]
    assert done["ended"]


def test_what_cannot_be_done_is_refused_in_one_line_and_nothing_is_changed(any_runner: Runner) -> None:
    done = result(any_runner, "refusals")
    said = done["said"]
    assert said["fixed"] == "a: offloads of lo cannot be turned off: tx-checksumming, scatter-gather"
    assert said["tool"] == "a: tcpdump is not installed"
    assert said["sysctl"] == "a: this kernel has no setting net.ipv4.no_such of a network namespace"
    assert said["value"] == "a: the kernel refuses net.ipv4.tcp_ecn = many: Invalid argument"
    assert said["outside"].startswith("a: kernel.panic is not a setting of a network namespace")
    assert said["interface"].startswith("a: `ip -json address show dev exp9`: ")
    assert said["file"] == "a: ../out is not a name of a file in the work folder"
    assert said["full"].endswith(": No space left on device; nothing was changed")
    assert said["full program"].endswith(": No space left on device; nothing was changed")
    assert done["filler"][0] != 0
    assert "No space left on device" in done["filler"][1]
    assert said["second"] == (
        "b: another weir uses this host now, or it is two hosts of one testbed; valid: one at a time"
    )
    assert said["other folder"] == said["second"]
    assert said["foreign"] == (
        "b: not put back: net.ipv4.tcp_ecn is 2, which weir did not set; it was 0 before"
    )
    assert done["foreign"] == "2"
    assert done["unchanged"]
    assert all("\n" not in line for line in said.values())


def test_a_helper_that_is_roots_by_sudo_puts_all_back_when_the_session_is_killed(root_runner: Runner) -> None:
    done = result(root_runner, "sudo")
    assert done["effective"]
    assert done["gone"]
    assert done["back"]
    assert done["said"] == f"a: {LOST}"
    assert done["refused"] == "a: `sudo -n` is refused: a password is required"


def test_a_file_comes_whole_although_the_connection_breaks(runner: Runner) -> None:
    done = result(runner, "fetched")
    assert 2**20 <= done["came"] < 40_000_000, "it broke too late"
    assert done["same"]
    assert done["least"] >= done["came"], "it began anew"
    assert not done["left"], "the file is still on the host"
    assert not done["packed"]


def test_a_full_disk_of_this_machine_is_named_and_the_file_stays_on_its_host(runner: Runner) -> None:
    done = result(runner, "no_room")
    assert done["said"] == "[Errno 28] No space left on device: 'HERE/large.pcap.packed'"
    assert done["kept"]


def test_a_capture_is_reduced_again_after_the_connection_broke(runner: Runner) -> None:
    done = result(runner, "reduced")
    assert done["whole"], "it broke too late"
    assert done["records"] == REDUCED_RECORDS
    assert done["came"] == [True]
    assert done["left"] == []
