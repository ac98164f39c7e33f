# SPDX-License-Identifier: Apache-2.0
import ast
import copy
from typing import Any

import pytest

from weir.testbed.clock import ClockOffset, offset_of
from weir.testbed.features import cannot_be_off, nic_time_stamps, read_features
from weir.testbed.findings import Finding, clock_found, findings
from weir.testbed.inventory import HostEntry
from weir.testbed.scripts import _NEEDS, _source, command, text_of

HOST = HostEntry.model_validate(
    {"ssh": {"host": "a"}, "interface": "eth1", "address": "10.0.0.1/24", "switch_port": 1}
)
FEATURES = """\
Features for eth1:
rx-checksumming: on [fixed]
tx-checksumming: on
\ttx-checksum-ipv4: off [fixed]
\ttx-checksum-ip-generic: on
tcp-segmentation-offload: on
\ttx-tcp-segmentation: on
generic-receive-offload: off [requested on]
"""
PROBE: dict[str, Any] = {
    "python": [3, 9, 2],
    "uid": 0,
    "capabilities": 1 << 12 | 1 << 13,
    "tools": {"iperf3": {"path": "/usr/bin/iperf3", "version": "iperf 3.12"}},
    "congestion_controls": {"available": ["cubic", "bbr"], "allowed": ["cubic"], "loadable": []},
    "interface": {
        "state": "UP",
        "flags": ["UP"],
        "mtu": 1500,
        "mac": "02:00:00:00:00:01",
        "speed_mbps": "10000",
        "addresses": ["10.0.0.1/24"],
        "features": FEATURES,
        "time_stamping": "hardware-transmit software-transmit hardware-receive software-receive",
    },
    "clock": {"services": [], "chrony": None, "timedatectl": None, "source": "tsc"},
    "disk": {"folder": "/var/tmp/weir-0", "free_bytes": 5 * 10**9, "writable": True, "is_folder": True},
}


def failed(**changes: Any) -> list[Finding]:
    probe = copy.deepcopy(PROBE)
    for key, value in changes.items():
        probe[key] = {**probe[key], **value} if isinstance(value, dict) else value
    return [one for one in findings(HOST, "root", probe) if not one.ok]


def test_a_host_that_lacks_nothing_has_no_finding() -> None:
    assert failed() == []


@pytest.mark.parametrize(
    ("changes", "name", "found", "mend"),
    [
        ({"python": [3, 8, 10]}, "Python", "3.8.10", "install Python 3.9 or newer"),
        ({"tools": {"tc": None}}, "tc", "not installed", "sudo apt-get install iproute2"),
        (
            {"congestion_controls": {"available": ["cubic"], "loadable": ["bbr"]}},
            "congestion control bbr",
            "in a module that is not loaded",
            "sudo modprobe tcp_bbr",
        ),
        (
            {"congestion_controls": {"available": ["cubic"]}},
            "congestion control bbr",
            "not in this kernel",
            "a kernel with tcp_bbr",
        ),
        ({"interface": {"mtu": 1400}}, "MTU", "1400", "sudo ip link set eth1 mtu 1500"),
        (
            {"interface": {"state": "DOWN"}},
            "interface eth1",
            "down, 02:00:00:00:00:01, 10000 Mbit/s",
            "connect its cable, and set the other end up",
        ),
        (
            {"interface": {"features": FEATURES.replace("ip-generic: on", "ip-generic: on [fixed]")}},
            "offloads",
            "cannot be turned off: tx-checksumming",
            "another interface than eth1 (another driver)",
        ),
        (
            {"disk": {"writable": False}},
            "disk",
            "/var/tmp/weir-0 cannot be written",
            "another work_folder, or its owner",
        ),
    ],
)
def test_what_is_missing_is_named_with_what_mends_it(
    changes: dict[str, Any], name: str, found: str, mend: str
) -> None:
    assert failed(**changes) == [Finding(name, True, False, found, mend)]


def test_without_capabilities_what_needs_them_is_missing_too() -> None:
    privileges, bbr = failed(capabilities=1 << 13, uid=1000)
    assert privileges.found == "root: uid 1000 lacks CAP_NET_ADMIN"
    assert bbr.mend == "sudo sysctl -w net.ipv4.tcp_allowed_congestion_control='cubic bbr'"


def test_a_group_cannot_be_off_if_one_of_its_features_is_fixed() -> None:
    assert cannot_be_off(read_features(FEATURES)) == []
    fixed = FEATURES.replace("tx-tcp-segmentation: on", "tx-tcp-segmentation: on [fixed]")
    assert cannot_be_off(read_features(fixed)) == ["tcp-segmentation-offload"]


@pytest.mark.parametrize(
    ("clock", "offset_ns", "ok", "said"),
    [
        ({}, 0, False, "no service sets it"),
        ({"services": ["ptp4l", "phc2sys"]}, 0, True, "ptp4l and phc2sys run"),
        ({"services": ["ntpd"]}, 0, False, "ntpd run, not known to be synchronised"),
        ({"timedatectl": "yes\n"}, 0, True, "synchronised (timedatectl)"),
        ({"timedatectl": "yes\n"}, 2 * 10**9, False, "synchronised (timedatectl); +2000.000 ms from here"),
        (
            {"chrony": "C0A80101,ntp,3,1764000000.1,0.000012,0,0"},
            0,
            True,
            "chrony: +0.000012 s from its source",
        ),
        ({"chrony": "00000000,,0,0.0,0.0,0,0"}, 0, False, "chrony has no source"),
    ],
)
def test_a_clock_is_good_if_a_service_sets_it_and_it_is_near(
    clock: dict[str, Any], offset_ns: int, ok: bool, said: str
) -> None:
    probe = {**PROBE, "clock": {**PROBE["clock"], **clock}}
    found = clock_found(probe, ClockOffset(offset_ns, 200_000))
    assert found.ok is ok
    assert found.found.startswith(said)
    assert found.found.endswith("to 0.100 ms (RTT 0.200 ms)")


def test_the_offset_is_that_of_the_exchange_with_the_least_round_trip() -> None:
    # Sent at 1000, received at 3000, so the host's clock is read at 2000 on the average: it shows 7000.
    offset = offset_of([(0, 9_000, 10_000), (1_000, 7_000, 3_000), (5_000, 90_000, 25_000)])
    assert (offset.offset_ns, offset.rtt_ns, offset.error_ns) == (5_000, 2_000, 1_000)


@pytest.mark.parametrize(
    "module",
    [
        "weir.testbed.remote.probe",
        "weir.testbed.remote.helper",
        "weir.topo.background_process",
        "weir.topo.draining",
        "weir.topo.played_process",
        "weir.topo.tcpdiag",
    ],
)
def test_programs_for_hosts_have_the_syntax_of_python_3_9(module: str) -> None:
    for source in [text_of(module, "run"), *(_source(name) for name in (*_NEEDS.get(module, ()), module))]:
        ast.parse(source, feature_version=(3, 9))


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["host (Host)"], None),
        (["host (Host)", "adapter_unsynced (Adapter, not synced with system time)"], "adapter_unsynced"),
        (["host (Host)", "adapter_unsynced (Adapter, not synced)", "adapter (Adapter)"], "adapter"),
        ([], None),
    ],
)
def test_the_cards_own_time_stamps_are_taken_from_tcpdump(types: list[str], expected: str | None) -> None:
    shown = "\n".join(["Time stamp types for eth0 (use option -j to set):", *(f"  {one}" for one in types)])
    assert nic_time_stamps(shown) == expected


def test_with_sudo_the_command_never_asks_for_a_password() -> None:
    argv, text = command("helper", ["{}"], "sudo")
    assert argv[:3] == ["sudo", "-n", "--"]
    assert argv[-2:] == [str(len(text)), "{}"]
