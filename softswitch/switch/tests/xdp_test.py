# SPDX-License-Identifier: Apache-2.0
"""Ports that receive through AF_XDP: who may have them, and what is left when the switch has ended."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from scenarios import run_scenario

ATTACHED = ["s1 1 weir_receive", "s2 1 weir_receive"]  # 1: XDP_ATTACHED_DRV, in the driver


@pytest.fixture(scope="module")
def seen(weir_switch: Path) -> dict[str, Any]:
    """The scenario's observations."""
    return run_scenario("xdp_scenario.py", weir_switch, root=True)


def test_no_program_is_left_when_the_switch_ends_or_is_killed(seen: dict[str, Any]) -> None:
    assert sorted(seen["running"]) == sorted(seen["before"]) == ATTACHED
    assert seen["ended"] == []


def test_each_thread_keeps_the_capabilities_that_the_page_lists(seen: dict[str, Any]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "privileges.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `weir-switch`")]
    assert "`receive=xdp`" in rows[1]
    assert "`CAP_BPF`" in rows[1]
    # CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_BPF of linux/capability.h.
    listed = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39
    assert {int(held, 16) for held in seen["held"]} == {listed}


def test_the_log_says_whether_frames_are_copied(seen: dict[str, Any]) -> None:
    # A veth has no memory of its own to share.
    assert "interface s1: AF_XDP in copy mode, 1 receive queue (the driver has no zero-copy" in seen["log"]
    assert "`ethtool -K PEER tx off txvlan off`" in seen["log"]


def test_a_second_switch_on_the_same_interfaces_is_refused(seen: dict[str, Any]) -> None:
    assert seen["second"].startswith("1 ")
    assert "another AF_XDP socket has its receive queue 0" in seen["second"]


def test_a_user_needs_no_more_than_the_capabilities_that_the_error_names(seen: dict[str, Any]) -> None:
    for user in ("without privileges", "without bpf", "without memory"):
        assert seen[user].startswith("1 "), seen[user]
        assert "CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_IPC_LOCK" in seen[user]
    assert sorted(seen["with capabilities"]) == ATTACHED
    assert seen["exit code"] == 0


def test_a_running_switch_is_given_no_such_port(weir_switch: Path) -> None:
    command = [str(weir_switch), "links", "add", "3=s3,receive=xdp"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "receive=xdp is for --port of a switch that starts" in ended.stderr


def test_in_a_user_namespace_the_error_says_what_to_do(weir_switch: Path) -> None:
    command = ["unshare", "--user", "--map-root-user", "--net"]
    allowed = subprocess.run([*command, "true"], capture_output=True, text=True)
    if allowed.returncode != 0:
        pytest.skip(f"kernel: user namespaces are not allowed here: {allowed.stderr.strip()}")
    ended = subprocess.run(
        [*command, str(weir_switch), "--port=1=lo,receive=xdp"], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert "run as the machine's root" in ended.stderr
    assert "not in a user namespace" in ended.stderr
