# SPDX-License-Identifier: Apache-2.0
"""Which packets meet a policer that matches ports; no packet is changed."""

import pytest

from virtual import frames as f
from virtual.under_test import CELL, PipelineUnderTest, shared

PORTS = {"has_ports": 1, "dst_port": 40000}


def meets(frame: bytes, ports: dict[str, int] = PORTS) -> tuple[int, int]:
    """Packets that met the policer with `ports`, and the other one; asserts that the frame is unchanged."""
    table = "classify_ipv6" if b"\x86\xdd" in frame[12:18] else "classify"
    switch = PipelineUnderTest(shared(table, ports, priority=2), shared(table, cell=CELL + 1))
    assert switch.passed(frame) == [frame]
    return switch.packets("met_counter", CELL), switch.packets("met_counter", CELL + 1)


OPTIONS = [b"\x01" * 4, b"\x07\x27\x04" + bytes(36) + b"\0"]
CHAINS = {
    "hop by hop": (f.HOP_BY_HOP, f.extension(f.TCP)),
    "routing": (f.ROUTING, f.extension(f.TCP, 2)),
    "destination options": (f.DESTINATION, f.extension(f.TCP, 8)),
    "first fragment": (f.FRAGMENT, f.fragment(f.TCP, 0)),
    "all four": (
        f.HOP_BY_HOP,
        f.extension(f.ROUTING, 1)
        + f.extension(f.FRAGMENT, 6)
        + f.fragment(f.DESTINATION, 0)
        + f.extension(f.TCP, 8),
    ),
    "fragment first": (f.FRAGMENT, f.fragment(f.DESTINATION, 0) + f.extension(f.TCP)),
}


@pytest.mark.parametrize("vid", [None, 42], ids=["untagged", "tagged"])
@pytest.mark.parametrize("transport", [f.tcp, f.udp])
def test_ports_are_found_in_ipv4(transport, vid):
    protocol = f.TCP if transport is f.tcp else f.UDP
    assert meets(f.ipv4(transport(), protocol, vid=vid)) == (1, 0)
    assert meets(f.ipv4(transport(dst_port=39999), protocol, vid=vid)) == (0, 1)


@pytest.mark.parametrize("options", OPTIONS, ids=len)
def test_ports_are_found_after_ipv4_options(options):
    assert meets(f.ipv4(f.tcp(), options=options)) == (1, 0)
    assert meets(f.ipv4(f.udp(), f.UDP, options=options, vid=1)) == (1, 0)


def test_a_first_fragment_has_its_ports_and_a_later_one_has_none():
    assert meets(f.ipv4(f.tcp(), fragment=0x2000)) == (1, 0)
    assert meets(f.ipv4(f.tcp(), fragment=0x2005)) == (0, 1)
    assert meets(f.ipv4(f.tcp(), fragment=0x0001, options=OPTIONS[0])) == (0, 1)


@pytest.mark.parametrize("vid", [None, 42], ids=["untagged", "tagged"])
@pytest.mark.parametrize("transport", [f.tcp, f.udp])
def test_ports_are_found_in_ipv6(transport, vid):
    protocol = f.TCP if transport is f.tcp else f.UDP
    assert meets(f.ipv6(transport(), protocol, vid=vid)) == (1, 0)
    assert meets(f.ipv6(transport(dst_port=39999), protocol, vid=vid)) == (0, 1)


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS.keys())
def test_ports_are_found_after_ipv6_extension_headers(chain):
    first, headers = chain
    assert meets(f.ipv6(headers + f.tcp(), first)) == (1, 0)


def test_a_later_fragment_of_ipv6_has_no_ports_and_the_protocol_of_its_fragment_header():
    frame = f.ipv6(f.fragment(f.TCP, 3) + f.tcp(), f.FRAGMENT)
    assert meets(frame) == (0, 1)
    assert meets(frame, {"protocol": f.TCP}) == (1, 0)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(f.extension(f.TCP, 9), id="80 bytes"),
        pytest.param(f.extension(f.DESTINATION) * 4 + f.extension(f.TCP), id="five"),
    ],
)
def test_a_chain_that_is_too_long_to_follow_leaves_the_packet_without_ports(headers):
    frame = f.ipv6(headers + f.tcp(), f.DESTINATION)
    assert meets(frame) == (0, 1)
    assert meets(frame, {"protocol": f.DESTINATION}) == (1, 0)


def test_other_protocols_of_ip_have_no_ports():
    assert meets(f.ipv4(f.tcp(), 47)) == (0, 1)
    assert meets(f.ipv6(f.tcp(), 47)) == (0, 1)
    assert meets(f.ipv4(f.tcp(), 47), {"protocol": 47}) == (1, 0)
    assert meets(f.ipv6(f.tcp(), 47), {"protocol": 47}) == (1, 0)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(f.ethernet(0x0806, bytes(28)), id="ARP"),
        pytest.param(f.ethernet(0x88B5, b"\x45" * 60), id="unknown"),
        pytest.param(f.ethernet(0x88B5, b"\x45" * 60, vid=7), id="unknown, tagged"),
        pytest.param(f.ethernet(0x8100, b"\0\5\x08\0" + bytes(60), vid=7), id="two tags"),
        pytest.param(f.ethernet(0x0026, bytes(38)), id="IEEE 802.3 length"),
        pytest.param(f.ethernet(0x88B5), id="no payload"),
    ],
)
def test_frames_without_ip_pass_untouched_and_meet_no_policer(frame):
    assert meets(frame) == (0, 0)


def test_padding_after_the_packet_stays():
    frame = f.ipv4(f.tcp(payload_bytes=0)) + bytes(6)
    assert meets(frame) == (1, 0)
    assert meets(f.ipv6(f.udp(payload_bytes=0), f.UDP) + bytes(6)) == (1, 0)


def test_all_fields_of_an_entry_are_compared():
    frame = f.ipv6(f.udp(), f.UDP, traffic_class=46 << 2)
    right = {"ingress_port": 1, "protocol": f.UDP, "src_port": 5001, "dst_port": 40000, "dscp": 46}
    right |= {"src": 0x20010DB8 << 96 | 2, "dst": 0x20010DB8 << 96 | 1, "has_ports": 1}
    assert meets(frame, right) == (1, 0)
    for name, value in right.items():
        assert meets(frame, {**right, name: value ^ 1}) == (0, 1), name
