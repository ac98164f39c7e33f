# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import statistics
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

from weir.topo.hosts import TestbedError
from weir.topo.testbed import HostSpec, Testbed, active_offloads, lay_out, thrown_away
from weir_tests.topo.runner import Runner
from weir_tests.topo.scenarios import LINES


def test_hosts_get_addresses_macs_and_ports_in_order() -> None:
    first, second, third = lay_out([HostSpec("a"), HostSpec("b", "10.0.0.1"), HostSpec("c")])
    assert (first.address, first.mac, first.switch_interface, first.switch_port) == (
        "10.0.0.2",
        "02:00:0a:00:00:02",
        "weir1",
        1,
    )
    assert (second.address, second.mac, second.switch_port) == ("10.0.0.1", "02:00:0a:00:00:01", 2)
    assert (third.address, third.switch_interface) == ("10.0.0.3", "weir3")


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ([], "at least one host"),
        ([HostSpec("a"), HostSpec("a")], "two hosts are named 'a'"),
        ([HostSpec("a b")], "host name 'a b' is not valid: use 1 to 63"),
        ([HostSpec("../etc")], "is not valid"),
        ([HostSpec("a", "10.0.1.1")], "use one of 10.0.0.1 to 10.0.0.254"),
        ([HostSpec("a", "10.0.0.255")], "use one of 10.0.0.1 to 10.0.0.254"),
        ([HostSpec("a", "fe80::1")], "'fe80::1' is not an IPv4 address"),
        ([HostSpec("a", "10.0.0.4"), HostSpec("b", "10.0.0.4")], "10.0.0.4 is taken by host 'a'"),
        ([HostSpec("a", None, "fd00::1"), HostSpec("b", None, "fd00::1")], "fd00::1 is taken by host 'a'"),
        ([HostSpec(f"h{number}") for number in range(255)], "'h254': no address of 10.0.0.0/24 is left"),
    ],
)
def test_impossible_hosts_are_refused_by_name(hosts: list[HostSpec], words: str) -> None:
    with pytest.raises(TestbedError, match=words):
        lay_out(hosts)


def test_testbed_outside_the_sandbox_is_refused() -> None:
    with pytest.raises(TestbedError, match="inside the sandbox only"), Testbed([HostSpec("a")]):
        pass


def test_unknown_host_is_named_beside_those_that_exist() -> None:
    with pytest.raises(TestbedError, match="no host 'x'; hosts are: a, b"):
        Testbed([HostSpec("a"), HostSpec("b")]).host("x")


def test_offload_that_stays_on_is_seen() -> None:
    # Output of `ethtool --json -k eth0` (ethtool 6.1), shortened.
    shown = [
        {
            "ifname": "eth0",
            "rx-checksumming": {"active": False, "fixed": False, "requested": False},
            "tx-checksumming": {"active": True, "fixed": None, "requested": None},
            "generic-receive-offload": {"active": False, "fixed": False, "requested": False},
            "highdma": {"active": True, "fixed": False, "requested": True},
        }
    ]
    assert active_offloads(json.dumps(shown)) == ["tx-checksumming"]


def test_what_tcp_threw_away_is_counted_whatever_else_the_kernel_counts() -> None:
    shown = "TcpExt: SyncookiesSent OfoPruned TCPSACKReneging\nTcpExt: 9 3 2\nIpExt: InOctets\nIpExt: 77\n"
    assert thrown_away(shown) == 5
    assert thrown_away(shown.replace("OfoPruned", "Other")) == 2


def test_hosts_reach_each_other_and_nothing_is_left(any_runner: Runner) -> None:
    report = any_runner.result("connect")
    assert report["heard"] == [["server1", "10.0.0.2"], ["server2", "10.0.0.3"], ["collector", "10.0.0.9"]]
    assert report["sysctls"] == {
        "tcp_no_metrics_save": "1",
        "conf/all/rp_filter": "0",
        "conf/eth0/rp_filter": "0",
        "tcp_congestion_control": "reno",
    }
    for host in report["hosts"]:
        links = {link["ifname"]: link for link in report["links"][host["name"]]}
        assert sorted(links) == ["eth0", "lo"]
        assert links["eth0"]["address"] == host["mac"]
        assert links["eth0"]["mtu"] == 1500
        # One address, hence no IPv6 link-local one and no neighbour discovery.
        assert [entry["local"] for entry in links["eth0"]["addr_info"]] == [host["address"]]
        assert "UP" in links["lo"]["flags"]
    assert report["drops"] == {host["name"]: {"to_switch": 0, "from_switch": 0} for host in report["hosts"]}
    assert report["left"] == ["lo", "bridge0"]
    assert report["namespaces"] == []


@pytest.mark.skipif(not Path("/proc/sys/net/ipv6").exists(), reason="kernel: no IPv6")
def test_hosts_with_ipv6_send_only_frames_of_flows(any_runner: Runner) -> None:
    report = any_runner.result("over_ipv6")
    assert report["heard"] == ["over IPv6", "2001:db8::2"]
    assert report["refused"] == "ENETUNREACH", "a silenced host could send"
    # No neighbour solicitation, no multicast listener report, no router solicitation.
    assert report["frames"] > 5
    assert report["others"] == []


def gaps_ns(path: Path) -> list[tuple[int, int]]:
    """(bytes of a frame, ns until the next one) of a capture."""
    with RawPcapReader(str(path)) as packets:
        assert packets.nano
        frames = [(meta.wirelen, meta.sec * 10**9 + meta.usec) for _, meta in packets]
    return [(size, then - at) for (size, at), (_, then) in itertools.pairwise(frames)]


def test_frames_of_one_write_are_as_far_apart_as_the_line_and_the_host_have_them(any_runner: Runner) -> None:
    report = any_runner.result("lines")
    assert report["drops"] == {
        name: {"to_switch": 0, "from_switch": 0} for name in ("client", "plain", "fast", "costly")
    }
    medians = {}
    for name, line in LINES.items():
        gaps = gaps_ns(any_runner.folder / f"{name}.pcap")
        full = [gap for size, gap in gaps if size == 1514]
        assert len(full) > 60
        medians[name] = statistics.median(full)
        if line is not None:
            # Time stamps are taken some time after the decision to send: up to 5 % more or less.
            early = [gap for size, gap in gaps if gap < 0.95 * line.spacing_ns(size)]
            assert len(early) <= len(gaps) / 20, f"{name}: {early}"
    print(medians)
    assert medians["plain"] < 100_000
    assert 615_000 * 0.95 < medians["fast"] < 1_000_000
    assert 1_015_000 * 0.95 < medians["costly"] < 2_000_000


def test_first_frame_after_building_is_not_dropped(runner: Runner) -> None:
    assert runner.result("first_frames") == {"dropped": 0}


def test_failure_in_the_middle_of_building_leaves_nothing(any_runner: Runner) -> None:
    report = any_runner.result("half_built")
    assert report["message"].startswith("ProcessError: `ip -batch -` failed")
    assert "weir2" in report["message"]
    # weir2 and its peer existed before.
    assert sorted(report["left"]) == ["lo", "other", "weir2"]
    assert report["namespaces"] == []


def test_missing_congestion_control_is_refused_with_the_available_ones(any_runner: Runner) -> None:
    report = any_runner.result("congestion_controls")
    assert "host server1: congestion control 'nosuchcc' is not available" in report["message"]
    for name in report["available"]:
        assert name in report["message"]


def test_a_sysctl_is_of_one_host_and_one_that_cannot_be_set_is_named(runner: Runner) -> None:
    report = runner.result("sysctls")
    assert report["values"] == {"client": "1", "server1": "2"}
    assert report["messages"] == [
        "host server2: this kernel has no setting net.ipv4.tcp_nothing of a network namespace",
        "host server2: the kernel refuses net.ipv4.tcp_ecn = 1000: Invalid argument",
    ]
