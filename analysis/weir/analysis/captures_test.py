# SPDX-License-Identifier: Apache-2.0
"""Capture files through the Rust core to the result."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from weir.analysis import analyse, losses_of, write_report
from weir.analysis.captures import LEAST_ACKS, handshakes_of_acks, traces_of
from weir.analysis.detect import detect
from weir.analysis.errors import FlowChoiceError
from weir.analysis.figures.records import of_capture
from weir.analysis.tables import TCP, FlowRow
from weir_tests.analysis.packets import make_packets
from weir_tests.analysis.tcp_capture import EPOCH_NS, MSS, Host, Transfer, write_run

weir_core = pytest.importorskip("weir_core", reason="weir_core is not built; make setup builds it")


def test_captures_and_reports_give_both_sides_of_the_law(tmp_path: Path) -> None:
    transfer = write_run(tmp_path)
    result = analyse(tmp_path)
    [flow] = result.flows
    assert result.explained, (result.headline, result.policers)
    assert result.valid, result.invalid_reasons
    assert flow.sent == transfer.transmissions == 400 + 4
    assert flow.reported_drops == flow.sent - flow.received == 4
    assert (flow.unexplained, flow.in_flight) == (0, 0)
    assert (flow.true_positive, flow.false_positive, flow.false_negative) == (4, 0, 0)
    assert flow.min_rtt_s == pytest.approx(0.02)
    assert [other.kind for other in result.other_flows] == ["acks"]
    assert write_report(tmp_path).stat().st_size > 1_000_000


def test_a_retransmission_that_is_lost_too_and_a_lost_tail_are_inferred(tmp_path: Path) -> None:
    # Segment 20 is lost. Three duplicate ACKs are back 23 ms later, just after segment 43 was sent, so it is
    # retransmitted as transmission 44. That is lost too, and so is the last segment, which only a timeout
    # finds.
    transfer = write_run(tmp_path, segments=200, drop=(20, 44, 201))
    [flow] = analyse(tmp_path).flows
    assert transfer.transmissions == 203
    assert flow.reported_drops == 3
    assert (flow.precision, flow.recall) == (1.0, 1.0), flow.false_inferences
    causes = losses_of(tmp_path / "pcap" / "server.pcap").flows[0].losses["cause"].to_pylist()
    assert len(causes) == 3
    assert "lost_retransmission" in causes


def test_losses_of_a_capture_alone(tmp_path: Path) -> None:
    write_run(tmp_path)
    found = losses_of(tmp_path / "pcap" / "server.pcap")
    [data] = [flow for flow in found.flows if flow.payload_bytes]
    # Retransmissions shift the numbers: transmissions 50, 51 and 120 are segments 49, 50 and 117.
    assert data.losses["seq"].to_pylist() == [1 + index * MSS for index in (20, 49, 50, 117)]


def test_a_detector_compares_flows_of_two_captures(tmp_path: Path) -> None:
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", drop=(30, 31))
    files = [tmp_path / name / "pcap" / "server.pcap" for name in ("a", "b")]
    found = detect("wehey_loss_trend", files[0], files[1])
    assert found.result.verdict == "cannot_tell"
    assert [flow.losses for flow in found.flows] == [4, 2]


def test_the_same_flow_twice_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path)
    capture = tmp_path / "pcap" / "server.pcap"
    with pytest.raises(FlowChoiceError, match="the same flow twice"):
        detect("wehey_loss_trend", capture, capture)


def test_packets_that_are_in_a_capture_twice_change_no_flow(tmp_path: Path) -> None:
    write_run(tmp_path)
    server = tmp_path / "pcap" / "server.pcap"
    [once] = traces_of(server).flows
    data = server.read_bytes()
    twice, at = data[:24], 24
    while at < len(data):
        end = at + 16 + struct.unpack_from("<I", data, at + 8)[0]
        twice += 2 * data[at:end]
        at = end
    server.write_bytes(twice)
    [flow] = traces_of(server).flows
    assert (len(flow.time_ns), flow.losses) == (len(once.time_ns), once.losses)
    assert flow.seq.tolist() == once.seq.tolist()


@pytest.mark.parametrize("second", [1_000, 3_000_000_000])
def test_two_connections_on_the_same_ports_lose_what_each_of_them_loses(tmp_path: Path, second: int) -> None:
    server, client = Host("10.0.0.2", 40_000), Host("10.0.0.1", 5_201)
    for seconds, initial_seq in ((1, 2_000_000_000), (61, second)):
        start_ns = EPOCH_NS + seconds * 10**9
        Transfer(400, (20, 50, 51, 120), server, client, start_ns, initial_seq).run()
    acks = [(at_ns, frame) for at_ns, frame in client.records if frame[26:30] == bytes([10, 0, 0, 1])]
    acked = Host(client.address, client.port, acks)
    for host, view in ((server, "sent"), (client, "received"), (acked, "acked")):
        path = tmp_path / f"{view}.pcap"
        host.write(path)
        [flow] = traces_of(path).flows
        assert (flow.view, flow.losses, flow.unfilled, flow.complete) == (view, 8, 0, 1.0)
        assert int(flow.seq.max()) + MSS == 800 * MSS
    [record] = of_capture(tmp_path / "sent.pcap").flows
    assert record.retransmission_ratio == pytest.approx(8 / 808)


@pytest.mark.parametrize(
    ("seq", "syn", "handshake_ns"),
    [
        ([9, *[10] * LEAST_ACKS], [0], 20_000_000),
        ([9, 9, *[10] * LEAST_ACKS], [0, 1], 20_000_000),  # the first SYN was lost
        ([9, *[10] * LEAST_ACKS], [], None),  # a keepalive, whose number is one less
    ],
)
def test_the_handshake_of_acks_begins_with_a_syn(
    seq: list[int], syn: list[int], handshake_ns: int | None
) -> None:
    packets = make_packets(
        sent_ns=[20_000_000 * number for number in range(len(seq))],
        received_ns=[None] * len(seq),
        dropped=[False] * len(seq),
        payload_length=[0] * len(seq),
        seq=seq,
        syn=syn,
    )
    row = FlowRow(0, "10.0.0.1", "10.0.0.2", 5_201, 40_000, TCP, None, None, 0, 0, 0)
    assert list(handshakes_of_acks({0: row}, {0: packets}).values()) == [handshake_ns]


SYN, ACK = 0x02, 0x10
SERVER, CLIENT = (bytes([10, 0, 0, 2]), 80), (bytes([10, 0, 0, 1]), 40_000)


def write_at_client(path: Path, segments: list[tuple[int, bool, int, int, int]]) -> None:
    """A capture of segments: ms, whether from the server, offset from the SYN, flags, payload."""
    records = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)]
    for at_ms, from_server, seq, flags, payload in segments:
        (src, src_port), (dst, dst_port) = (SERVER, CLIENT) if from_server else (CLIENT, SERVER)
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + payload, len(records), 0, 64, 6, 0, src, dst)
        tcp = struct.pack("!HHIIBBHHH", src_port, dst_port, 1_000 + seq, 2_000, 0x50, flags, 512, 0, 0)
        frame = bytes(12) + b"\x08\x00" + ip + tcp + bytes(payload)
        at_ns = EPOCH_NS + at_ms * 10**6
        records.append(struct.pack("<IIII", *divmod(at_ns, 10**9), len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(records))


def test_a_client_that_waits_before_its_request_does_not_make_the_handshake_longer(tmp_path: Path) -> None:
    handshake = [(0, False, 0, SYN, 0), (20, True, 0, SYN | ACK, 0), (20, False, 1, ACK, 0)]
    request = [(5_000, False, 1, ACK, 100), (5_020, True, 1, ACK, 0)]
    # The second of three segments comes 40 ms after the third: too late for one that was overtaken.
    answer = [
        (5_021 + late_ms, True, 1 + MSS * index, ACK, MSS) for index, late_ms in ((0, 0), (2, 1), (1, 41))
    ]
    write_at_client(tmp_path / "client.pcap", handshake + request + answer)
    flow = traces_of(tmp_path / "client.pcap").flows[0]
    assert (flow.src, flow.view, flow.losses) == ("10.0.0.2", "received", 1)
    assert flow.handshake_ns == 20_000_000
