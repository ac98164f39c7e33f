# SPDX-License-Identifier: Apache-2.0
"""Malformed packets: each is dropped for its reason, reported, and meets no policer."""

import pytest

from virtual import frames as f
from virtual.under_test import COLLECTOR, SESSION, PipelineUnderTest, entry, frames, reports, shared

EVERYTHING = (shared(), shared("classify_ipv6"))
OPTIONS = b"\x01" * 12
CHAIN = f.extension(f.DESTINATION) + f.extension(f.TCP, 2)
WHOLE = {
    "IPv4": f.ipv4(f.tcp()),
    "IPv4 tagged": f.ipv4(f.udp(), f.UDP, vid=9),
    "IPv4 with options": f.ipv4(f.tcp(), options=OPTIONS),
    "IPv6": f.ipv6(f.udp(), f.UDP),
    "IPv6 tagged": f.ipv6(f.tcp(), vid=9),
    "IPv6 with extensions": f.ipv6(CHAIN + f.tcp(), f.HOP_BY_HOP),
}
# Offset of each header's end, and the reason of a frame that ends before it; in the last, the length is
# wrong.
CUTS = {
    "IPv4": [(14, 101), (34, 103), (38, 107), (154, 112)],
    "IPv4 tagged": [(14, 101), (18, 102), (38, 103), (42, 107), (146, 112)],
    "IPv4 with options": [(14, 101), (34, 103), (46, 104), (50, 107), (166, 112)],
    "IPv6": [(14, 101), (54, 105), (58, 107), (162, 115)],
    "IPv6 tagged": [(14, 101), (18, 102), (58, 105), (62, 107), (178, 115)],
    "IPv6 with extensions": [(14, 101), (54, 105), (86, 106), (90, 107), (206, 115)],
}


def assert_dropped(switch: PipelineUnderTest, frame: bytes, reason: int) -> None:
    """Assert that a frame is dropped, counted and reported for a reason, and not metered."""
    before = switch.count("drop_counter", reason)
    (report,) = reports(switch.send(frame))
    assert (report.drop_reason, report.inner) == (reason, frame[:128])
    assert (report.policer, report.packet_number, report.wire_length) == (0, 0, len(frame))
    assert switch.count("drop_counter", reason) == (before[0] + 1, before[1] + len(frame))
    assert switch.packets("met_counter", 7) == 0


@pytest.mark.parametrize("name", WHOLE)
def test_a_frame_cut_anywhere_is_dropped_for_the_header_in_which_it_ends(name):
    whole = WHOLE[name]
    switch = PipelineUnderTest(*EVERYTHING)
    assert CUTS[name][-1][0] == len(whole)
    reasons = [next(reason for end, reason in CUTS[name] if at < end) for at in range(len(whole))]
    for at in range(1, len(whole)):
        assert_dropped(switch, whole[:at], reasons[at])
    assert switch.passed(whole) == [whole]


def ipv4_of(total_length: int, protocol: int, options: bytes = b"") -> bytes:
    return f.ipv4(f.tcp(), protocol, options=options, total_length=total_length)


@pytest.mark.parametrize("vid", [None, 3], ids=["untagged", "tagged"])
@pytest.mark.parametrize("version_ihl", [0x05, 0x35, 0x55, 0x65, 0xF5, 0xFF])
def test_another_version_than_4_is_dropped(version_ihl, vid):
    assert_dropped(PipelineUnderTest(*EVERYTHING), f.ipv4(f.tcp(), version_ihl=version_ihl, vid=vid), 110)


@pytest.mark.parametrize("ihl", range(5))
def test_a_header_of_fewer_than_five_words_is_dropped(ihl):
    assert_dropped(PipelineUnderTest(*EVERYTHING), f.ipv4(f.tcp(), version_ihl=0x40 | ihl), 111)


@pytest.mark.parametrize(("protocol", "least"), [(f.TCP, 40), (f.UDP, 28), (1, 20)])
def test_a_total_length_within_the_headers_is_dropped(protocol, least):
    switch = PipelineUnderTest(*EVERYTHING)
    for length in range(least):
        assert_dropped(switch, ipv4_of(length, protocol), 113)
    assert switch.passed(ipv4_of(least, protocol)) != []


@pytest.mark.parametrize(("protocol", "least"), [(f.TCP, 20), (f.UDP, 8), (1, 0)])
def test_a_total_length_within_options_and_transport_is_dropped(protocol, least):
    switch = PipelineUnderTest(*EVERYTHING)
    for length in range(20 + 12 + least):
        assert_dropped(switch, ipv4_of(length, protocol, OPTIONS), 113)
    assert switch.passed(ipv4_of(20 + 12 + least, protocol, OPTIONS)) != []


def test_a_total_length_beyond_the_frame_is_dropped():
    switch = PipelineUnderTest(*EVERYTHING)
    assert_dropped(switch, ipv4_of(141, f.TCP), 112)
    assert_dropped(switch, ipv4_of(0xFFFF, f.TCP), 112)
    assert_dropped(switch, f.ipv4(f.tcp(), vid=1, total_length=141), 112)
    assert switch.passed(ipv4_of(140, f.TCP)) != []


def test_options_that_overflow_the_frame_are_dropped():
    frame = f.ethernet(0x0800, f.ipv4_header(0, f.TCP, version_ihl=0x4F, total_length=60))
    assert_dropped(PipelineUnderTest(*EVERYTHING), frame, 104)


@pytest.mark.parametrize("fields", [{"fragment": 0x2005}, {"options": OPTIONS, "fragment": 0x2005}])
def test_a_later_fragment_may_be_shorter_than_a_transport_header(fields):
    switch = PipelineUnderTest(*EVERYTHING)
    frame = f.ipv4(b"\xab" * 8, f.TCP, **fields)
    assert switch.passed(frame) == [frame]


@pytest.mark.parametrize("version", [0, 4, 5, 7, 15])
def test_another_version_than_6_is_dropped(version):
    assert_dropped(PipelineUnderTest(*EVERYTHING), f.ipv6(f.tcp(), version=version), 114)


def test_a_payload_length_beyond_the_frame_is_dropped():
    switch = PipelineUnderTest(*EVERYTHING)
    assert_dropped(switch, f.ipv6(f.tcp(), payload_length=121), 115)
    assert_dropped(switch, f.ipv6(f.tcp(), payload_length=0xFFFF, vid=1), 115)
    assert switch.passed(f.ipv6(f.tcp(), payload_length=120)) != []


@pytest.mark.parametrize("chain", [b"", CHAIN], ids=["plain", "extensions"])
@pytest.mark.parametrize(("protocol", "least"), [(f.TCP, 20), (f.UDP, 8)])
def test_a_payload_length_within_extensions_and_transport_is_dropped(protocol, least, chain):
    switch = PipelineUnderTest(*EVERYTHING)
    first = f.HOP_BY_HOP if chain else protocol
    payload = chain[:-24] + f.extension(protocol, 2) + f.tcp() if chain else f.tcp()
    for length in range(len(chain) + least):
        assert_dropped(switch, f.ipv6(payload, first, payload_length=length), 116)
    assert switch.passed(f.ipv6(payload, first, payload_length=len(chain) + least)) != []


def test_a_malformed_packet_without_a_report_is_counted_nevertheless():
    switch = PipelineUnderTest(*EVERYTHING)
    switch.delete(entry("report", "report_drops", priority=1, session=SESSION, collector=COLLECTOR))
    assert frames(switch.send(f.ipv4(f.tcp())[:20])) == []
    assert switch.packets("drop_counter", 103) == 1
