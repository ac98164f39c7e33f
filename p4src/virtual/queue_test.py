# SPDX-License-Identifier: Apache-2.0
"""Reports of packets that were enqueued, and of those that a full queue dropped."""

import pytest
from finsy.proto import p4r

from virtual import frames as f
from virtual.under_test import (
    CELL,
    COLLECTING,
    COLLECTOR,
    RECEIVING,
    SECOND_COLLECTING,
    SECOND_COLLECTOR,
    SECOND_SESSION,
    SESSION,
    PipelineUnderTest,
    collector,
    drop,
    entry,
    forward,
    frames,
    reports,
    shared,
)
from weir.controlplane.entities import CloneSession, MeterCell

MS = 1_000_000
WATCHED = (shared(watched=1), shared("classify_ipv6", watched=1))
# 154 bytes take a millisecond; the first frame leaves at once.
SLOW = "rate=1232kbit/s,burst=154B"
FRAME = f.ipv4(f.tcp())


def enqueues(every: int = 1, congested_at: int = 0, cell: int = CELL):
    return entry(
        "report_enqueues",
        "report_enqueued",
        {"cell": cell},
        1,
        session=SESSION,
        collector=COLLECTOR,
        every=every,
        congested_at=congested_at,
    )


def queue_drops(port: int = RECEIVING, to: int = COLLECTOR, session: int = SESSION):
    return entry("report_queue", "report_queue_drops", {"port": port}, session=session, collector=to)


def test_every_enqueue_of_a_watched_policer_is_reported_with_its_times_and_its_queue():
    switch = PipelineUnderTest(*WATCHED, enqueues(congested_at=2), ports={RECEIVING: SLOW})
    events = [event for _ in range(4) for event in switch.send(FRAME, 5 * MS)]
    events += switch.switch.run_until_idle(100 * MS)
    found = reports(events)
    assert [report.sequence for report in found] == [0, 1, 2, 3]
    assert [report.packet_number for report in found] == [1, 2, 3, 4]
    assert [report.ingress_ns for report in found] == [5 * MS] * 4
    assert [report.egress_ns for report in found] == [5 * MS, 6 * MS, 7 * MS, 8 * MS]
    assert [report.queue_occupancy for report in found] == [0, 0, 1, 2]
    assert [report.congested for report in found] == [0, 0, 0, 1]
    for report in found:
        assert (report.dropped, report.drop_reason, report.tracked, report.queue_lost) == (0, 0, 0, None)
        assert (report.policer, report.colour, report.wire_length) == (CELL, 0, 154)
        assert report.inner == FRAME[:128]


def test_a_policer_that_is_not_watched_or_has_no_entry_reports_no_enqueue():
    unwatched = PipelineUnderTest(shared(), enqueues())
    assert unwatched.passed(FRAME) == [FRAME]
    assert unwatched.packets("report_counter", COLLECTOR) == 0
    other_cell = PipelineUnderTest(*WATCHED, enqueues(cell=CELL + 1))
    assert other_cell.passed(FRAME) == [FRAME]
    assert other_cell.packets("report_counter", COLLECTOR) == 0


def test_a_cell_that_is_excepted_from_enqueue_reports_does_not_count_packets_of_its_flows():
    excepted = entry("report_enqueues", "no_enqueue_report", {"cell": CELL}, 2)
    switch = PipelineUnderTest(*WATCHED, enqueues(every=10), excepted)
    assert reports(switch.send(FRAME)) == []
    switch.delete(excepted)
    assert len(reports(switch.send(FRAME))) == 1, "the first packet that counts"


def test_an_entry_cannot_use_the_default_action_no_collector():
    with pytest.raises(Exception, match="no_collector"):
        PipelineUnderTest().write(entry("collector", "no_collector", {"collector": SECOND_COLLECTOR}))


@pytest.mark.parametrize("every", [1, 2, 7, 100])
@pytest.mark.parametrize("packet", [f.ipv4, f.ipv6])
def test_the_first_of_each_flow_and_then_each_nth_is_reported(every, packet):
    switch = PipelineUnderTest(*WATCHED, enqueues(every))
    flows = (5001, 5002, 5003)
    found: dict[int, list[int]] = {port: [] for port in flows}
    for number in range(200):
        for port in flows:
            for report in reports(switch.send(packet(f.tcp(port)))):
                assert report.inner[:100] == packet(f.tcp(port))[:100]
                found[port].append(number)
    assert found == {port: list(range(0, 200, every)) for port in flows}


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(
    "action", [{"action": "remark_dscp", "dscp": 63}, {"action": "mark_ce", "drop_not_ect": 0}]
)
def test_the_report_of_a_rewritten_packet_holds_it_as_it_came_in(action, version):
    fields = {**action}
    name = fields.pop("action")
    verdict = entry("verdict", name, {"colour": 0}, 1, **fields)
    switch = PipelineUnderTest(*WATCHED, enqueues(), verdict)
    frame = f.ipv4(f.tcp(), tos=2) if version == 4 else f.ipv6(f.tcp(), traffic_class=2)
    events = switch.send(frame)
    (report,) = reports(events)
    assert report.inner == frame[:128]
    assert [event.frame != frame for event in frames(events) if event.port == RECEIVING] == [True]


def deflecting(*entities, limit: str = "limit=154B", more: str = ""):
    ports = {RECEIVING: f"{SLOW},{limit},deflect={COLLECTING}{more}"}
    return PipelineUnderTest(queue_drops(), *entities, ports=ports)


def test_a_packet_that_a_full_queue_dropped_is_reported_with_its_policer_and_queue():
    switch = deflecting(shared())
    events = [event for _ in range(4) for event in switch.send(FRAME, 2 * MS)]
    found = reports(events)
    assert [report.packet_number for report in found] == [3, 4]
    assert [report.sequence for report in found] == [0, 1]
    for report in found:
        assert (report.dropped, report.congested, report.drop_reason) == (1, 1, 51)
        assert (report.queue_occupancy, report.ingress_ns, report.egress_ns) == (1, 2 * MS, 0)
        assert (report.policer, report.colour, report.wire_length) == (CELL, 0, 154)
        assert (report.inner, report.queue_lost) == (FRAME[:128], None)
    assert switch.packets("egress_port_counter", RECEIVING) == 1
    assert switch.packets("drop_counter", 51) == 0, "it was not ingress that dropped it"


def test_a_packet_without_a_policer_that_a_full_queue_dropped_is_reported_too():
    switch = deflecting()
    arp = f.ethernet(0x0806, bytes(140))
    found = [report for _ in range(3) for report in reports(switch.send(arp, 0))]
    assert [(report.policer, report.wire_length, report.inner) for report in found] == [(0, 154, arp[:128])]


def test_a_queue_without_an_entry_drops_without_a_report():
    ports = {RECEIVING: f"{SLOW},limit=154B,deflect={COLLECTING}"}
    switch = PipelineUnderTest(shared(), ports=ports)
    assert [event.port for _ in range(4) for event in frames(switch.send(FRAME, 0))] == [RECEIVING]


@pytest.mark.parametrize("version", [4, 6])
def test_a_rewritten_packet_that_a_full_queue_dropped_is_reported_as_it_came_in(version):
    verdict = entry("verdict", "remark_dscp", {"colour": 0}, 1, dscp=63)
    switch = deflecting(shared(), shared("classify_ipv6"), verdict)
    frame = f.ipv4(f.tcp(), tos=1) if version == 4 else f.ipv6(f.tcp(), traffic_class=1)
    found = [report for _ in range(4) for report in reports(switch.send(frame, 0))]
    assert [report.inner for report in found] == [frame[:128]] * len(found) != []


def test_a_watched_packet_is_reported_once_whether_it_was_enqueued_or_dropped():
    switch = deflecting(*WATCHED, enqueues())
    events = [event for _ in range(4) for event in switch.send(FRAME, 0)]
    events += switch.switch.run_until_idle(100 * MS)
    found = reports(events)
    assert sorted(report.packet_number for report in found) == [1, 2, 3, 4]
    assert sorted(report.sequence for report in found) == [0, 1, 2, 3]
    assert {report.packet_number for report in found if report.dropped} == {3, 4}


def test_a_report_that_a_full_queue_deflected_is_still_that_report():
    ports = {COLLECTING: f"rate=8bit/s,burst=1B,limit=300B,deflect={SECOND_COLLECTING}"}
    switch = PipelineUnderTest(shared(), drop(), MeterCell("policer", CELL, 1, 1), ports=ports)
    found = [report for _ in range(5) for report in reports(switch.send(FRAME, 0))]
    assert [(report.port, report.drop_reason) for report in found] == [
        (COLLECTING, 70),
        *[(SECOND_COLLECTING, 70)] * 3,
    ]
    # The second one waits.
    assert [report.packet_number for report in found] == [1, 3, 4, 5]


def test_a_gap_is_reported_with_its_size_by_the_packet_after_it():
    ports = {RECEIVING: f"{SLOW},limit=154B"}
    switch = PipelineUnderTest(queue_drops(), shared(), forward("set_numbered_egress"), ports=ports)
    events = [event for _ in range(6) for event in switch.send(FRAME, 0)]
    events += switch.send(FRAME, 10 * MS)
    (report,) = reports(events + switch.switch.run_until_idle(100 * MS))
    # Two passed, four were dropped, and the seventh finds the queue empty.
    assert (report.queue_lost, report.packet_number, report.ingress_ns) == (4, 7, 10 * MS)
    assert (report.dropped, report.congested, report.drop_reason) == (0, 1, 0)
    assert (report.inner, report.wire_length) == (FRAME[:128], 154)


def test_drops_of_the_policer_leave_no_gap():
    switch = PipelineUnderTest(
        queue_drops(),
        shared(),
        forward("set_numbered_egress"),
        drop(),
        MeterCell("policer", CELL, 1, 154),
    )
    found = [report for _ in range(5) for report in reports(switch.send(FRAME, 0))]
    assert [(report.drop_reason, report.queue_lost) for report in found] == [(70, None)] * 4
    other = f.ethernet(0x88B5, bytes(60))
    assert reports(switch.send(other)) == []


def test_a_watched_packet_behind_a_gap_is_reported_once():
    ports = {RECEIVING: f"{SLOW},limit=154B"}
    switch = PipelineUnderTest(
        queue_drops(), *WATCHED, enqueues(), forward("set_numbered_egress"), ports=ports
    )
    events = [event for _ in range(3) for event in switch.send(FRAME, 0)]
    events += switch.send(FRAME, 10 * MS)
    found = reports(events + switch.switch.run_until_idle(100 * MS))
    assert [(report.packet_number, report.queue_lost) for report in found] == [(1, None), (2, None), (4, 1)]


def test_collectors_have_sequences_of_their_own():
    switch = PipelineUnderTest(
        shared(),
        shared(keys={"protocol": f.UDP}, cell=CELL + 1, priority=2),
        drop(),
        MeterCell("policer", CELL, 1, 1),
        MeterCell("policer", CELL + 1, 1, 1),
        collector(SECOND_COLLECTOR, inner_bytes=60),
        CloneSession(SECOND_SESSION, (SECOND_COLLECTING,)),
        entry(
            "report",
            "report_drops",
            {"cell": CELL + 1},
            2,
            session=SECOND_SESSION,
            collector=SECOND_COLLECTOR,
        ),
    )
    found = [
        report for frame in (FRAME, f.ipv4(f.udp(), f.UDP)) * 3 for report in reports(switch.send(frame))
    ]
    by_port = [(report.port, report.sequence, len(report.inner)) for report in found]
    assert by_port[::2] == [(COLLECTING, number, 128) for number in range(3)]
    assert by_port[1::2] == [(SECOND_COLLECTING, number, 60) for number in range(3)]
    assert switch.packets("report_counter", COLLECTOR) == 3
    assert switch.packets("report_counter", SECOND_COLLECTOR) == 3


@pytest.mark.parametrize("length", [14, 60, 127, 128, 129, 968, 972, 973, 1500])
def test_the_inner_packet_is_cut_to_the_configured_length(length):
    switch = PipelineUnderTest(
        shared(),
        drop(),
        MeterCell("policer", CELL, 1, 1),
        collector(SECOND_COLLECTOR, inner_bytes=length),
        entry("report", "report_drops", {"cell": CELL}, 2, session=SESSION, collector=SECOND_COLLECTOR),
    )
    for payload_bytes in (0, 100, 1300):
        frame = f.ipv4(f.tcp(payload_bytes=payload_bytes))
        (report,) = reports(switch.send(frame))
        assert report.inner == frame[:length]


def test_the_sequence_goes_around_at_22_bits():
    switch = PipelineUnderTest(shared(), drop(), MeterCell("policer", CELL, 1, 1))
    register = switch.pipeline.schema.registers["sequence"]
    data = p4r.RegisterEntry(register_id=register.id, index=p4r.Index(index=COLLECTOR))
    data.data.bitstring = (2**22 - 1).to_bytes(4, "big")
    switch.switch.modify(p4r.Entity(register_entry=data))
    found = [report for _ in range(3) for report in reports(switch.send(FRAME))]
    assert [report.sequence for report in found] == [2**22 - 1, 0, 1]
