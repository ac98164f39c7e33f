# SPDX-License-Identifier: Apache-2.0
"""Verdicts by colour, and the counters of packets that met a policer."""

import pytest
from finsy.proto import p4i

from virtual import frames as f
from virtual.under_test import (
    CELL,
    GREEN,
    RED,
    YELLOW,
    PipelineUnderTest,
    drop,
    entry,
    frames,
    reports,
    shared,
)
from weir.controlplane.entities import MeterCell

BOTH = (shared(), shared("classify_ipv6"))
NO_RATE = 1


def verdict(action: str, colour: int = GREEN, cell: int = CELL, **args: int):
    return entry("verdict", action, {"cell": cell, "colour": colour}, 2, **args)


def test_without_a_verdict_every_colour_passes():
    switch = PipelineUnderTest(*BOTH, MeterCell("policer", CELL, NO_RATE, 1))
    frame = f.ipv4(f.tcp())
    assert [switch.passed(frame) for _ in range(3)] == [[frame]] * 3
    assert switch.colours() == (0, 0, 3)


def test_three_colours_of_two_rates_have_three_verdicts():
    switch = PipelineUnderTest(
        *BOTH,
        verdict("pass_packet"),
        verdict("remark_dscp", YELLOW, dscp=10),
        drop(),
    )
    # Frames of 154 bytes; the committed bucket holds one, the peak bucket two.
    switch.meter(cir=NO_RATE, cburst=154, pir=NO_RATE, pburst=308)
    frame = f.ipv4(f.tcp())
    assert len(frame) == 154
    assert switch.passed(frame) == [frame]
    assert switch.passed(frame) == [f.ipv4(f.tcp(), tos=10 << 2)]
    (report,) = reports(switch.send(frame))
    assert (report.colour, report.packet_number, report.inner) == (RED, 3, frame[:128])
    assert switch.colours() == (1, 1, 1)
    assert [switch.count("policer_counter", CELL << 2 | colour) for colour in range(3)] == [(1, 154)] * 3


def test_three_colours_of_a_single_rate_follow_rfc_2697():
    # Green takes from the committed bucket only, yellow from the excess bucket: two of each, then red.
    switch = PipelineUnderTest(*BOTH, drop(), policer=p4i.MeterSpec.SINGLE_RATE_THREE_COLOR)
    switch.meter(cir=154, cburst=308, pir=154, pburst=308, eburst=308)
    frame = f.ipv4(f.tcp())
    assert [len(switch.passed(frame, 0)) for _ in range(5)] == [1, 1, 1, 1, 0]
    assert switch.colours() == (2, 2, 1)
    # One second brings tokens for one frame, which fill the committed bucket first.
    assert switch.passed(frame, 1_000_000_000) == [frame]
    assert switch.colours() == (3, 2, 1)
    # Tokens for three frames: two fill the committed bucket, the third overflows into the excess bucket.
    assert [len(switch.passed(frame, 4_000_000_000)) for _ in range(4)] == [1, 1, 1, 0]
    assert switch.colours() == (5, 3, 2)


@pytest.mark.parametrize("dscp", [0, 1, 10, 46, 63])
@pytest.mark.parametrize("tos", [0x00, 0x01, 0x2B, 0xFC, 0xFF])
def test_remark_writes_the_dscp_and_keeps_the_ecn_and_the_checksum_right(dscp, tos):
    switch = PipelineUnderTest(*BOTH, verdict("remark_dscp", dscp=dscp))
    new = dscp << 2 | tos & 3
    assert switch.passed(f.ipv4(f.tcp(), tos=tos)) == [f.ipv4(f.tcp(), tos=new)]
    assert switch.passed(f.ipv6(f.tcp(), traffic_class=tos)) == [f.ipv6(f.tcp(), traffic_class=new)]


def test_the_checksum_is_right_whatever_it_was_and_includes_options():
    # A source address whose low word runs through all values makes the checksum do so too.
    switch = PipelineUnderTest(shared(), verdict("remark_dscp", dscp=63))
    for low in [*range(0, 0x10000, 1009), *range(0xF000, 0xF400)]:
        fields = {"src": f"10.0.{low >> 8}.{low & 255}", "options": b"\x94\x04\0\0"}
        (left,) = switch.passed(f.ipv4(f.tcp(payload_bytes=0), **fields))
        assert left == f.ipv4(f.tcp(payload_bytes=0), tos=0xFC, **fields)
        assert f.checksum(left[14:38]) == 0


def test_a_wrong_checksum_stays_wrong():
    switch = PipelineUnderTest(shared(), verdict("remark_dscp", dscp=1))
    frame = bytearray(f.ipv4(f.tcp()))
    frame[24] ^= 0x55
    ((left),) = switch.passed(bytes(frame))
    assert f.checksum(left[14:34]) == f.checksum(bytes(frame[14:34])) != 0


@pytest.mark.parametrize("tos", [0xB9, 0xBA, 0xBB])
@pytest.mark.parametrize("drop_not_ect", [0, 1])
def test_mark_sets_ce_on_packets_of_an_ecn_capable_transport(tos, drop_not_ect):
    switch = PipelineUnderTest(*BOTH, verdict("mark_ce", drop_not_ect=drop_not_ect))
    assert switch.passed(f.ipv4(f.tcp(), tos=tos)) == [f.ipv4(f.tcp(), tos=0xBB)]
    assert switch.passed(f.ipv6(f.tcp(), traffic_class=tos)) == [f.ipv6(f.tcp(), traffic_class=0xBB)]


@pytest.mark.parametrize("frame", [f.ipv4(f.tcp(), tos=0xB8), f.ipv6(f.tcp(), traffic_class=0xB8)])
def test_a_packet_that_is_not_ect_passes_unmarked_or_is_dropped_as_the_verdict_says(frame):
    passing = PipelineUnderTest(*BOTH, verdict("mark_ce", drop_not_ect=0))
    assert passing.passed(frame) == [frame]
    dropping = PipelineUnderTest(*BOTH, verdict("mark_ce", drop_not_ect=1))
    (report,) = reports(dropping.send(frame))
    assert (report.drop_reason, report.dropped, report.policer, report.inner) == (72, 1, CELL, frame[:128])
    assert dropping.packets("drop_counter", 72) == 1
    assert dropping.colours() == (1, 0, 0)


def test_a_remarked_packet_with_a_vlan_tag_keeps_its_tag():
    switch = PipelineUnderTest(shared(), verdict("remark_dscp", dscp=12))
    assert switch.passed(f.ipv4(f.tcp(), vid=99)) == [f.ipv4(f.tcp(), vid=99, tos=48)]


def test_a_policed_packet_that_is_flooded_is_policed_once():
    switch = PipelineUnderTest(shared(), MeterCell("policer", CELL, NO_RATE, 200), drop())
    frame = b"\xff" * 6 + f.ipv4(f.udp(), f.UDP)[6:]
    assert sorted(event.port for event in frames(switch.send(frame))) == [2, 3]
    assert [report.drop_reason for report in reports(switch.send(frame))] == [70]
    assert switch.colours() == (1, 0, 1)


def test_port_counters_count_frames_that_come_in_and_leave():
    switch = PipelineUnderTest(shared(), drop(), MeterCell("policer", CELL, NO_RATE, 154))
    frame = f.ipv4(f.tcp())
    for _ in range(3):
        switch.send(frame)
    assert switch.count("ingress_port_counter", 1) == (3, 3 * 154)
    assert switch.count("egress_port_counter", 2) == (1, 154)
    assert switch.count("egress_port_counter", 3) == (0, 0)
    assert switch.count("drop_counter", 70) == (2, 2 * 154)
