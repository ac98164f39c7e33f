# SPDX-License-Identifier: Apache-2.0
import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from weir.topo.traffic import (
    MAX_FLOWS,
    FlowSpec,
    PortAllocator,
    TrafficError,
    check_flows,
    client_arguments,
    read_report,
)
from weir_tests.topo.runner import Runner

FLOW = FlowSpec("main/a", "server1", "client", "bbr", 20001, 5301, 2)
# JSON of iperf 3.12 from a real run, reduced to the parts that are read.
REPORT: dict[str, Any] = {
    "start": {
        "connected": [
            {
                "socket": 5,
                "local_host": "10.0.0.1",
                "local_port": 20001,
                "remote_host": "10.0.0.2",
                "remote_port": 5301,
            }
        ],
        "version": "iperf 3.12",
    },
    "intervals": [],
    "end": {
        "sum_sent": {"seconds": 2.000091, "bytes": 5111808, "retransmits": 0, "sender": True},
        "sum_received": {"seconds": 2.000894, "bytes": 5111808, "sender": True},
        "sender_tcp_congestion": "bbr",
        "receiver_tcp_congestion": "bbr",
    },
}


def test_good_report_is_accepted() -> None:
    assert read_report(FLOW, json.dumps(REPORT), 0) == (REPORT, None)


def test_wrong_ports_and_wrong_congestion_control_are_errors() -> None:
    _, error = read_report(replace(FLOW, source_port=20002), json.dumps(REPORT), 0)
    assert error == "the data connection used ports 20001 to 5301 instead of 20002 to 5301"
    _, error = read_report(replace(FLOW, congestion_control="cubic"), json.dumps(REPORT), 0)
    assert error == "the sender used congestion control 'bbr' instead of 'cubic'"


@pytest.mark.parametrize(
    ("text", "exit_code", "words"),
    [
        # iperf 3.12 without a server.
        (
            '{"start":{"connected":[]},"intervals":[],"end":{},'
            '"error":"unable to connect to server: Connection refused"}',
            1,
            "iperf3: unable to connect to server: Connection refused",
        ),
        ("iperf3: unrecognized option '--nonsense'\n", 1, "it said: iperf3: unrecognized option"),
        ("", -9, "gave no report (exit code -9); it said: nothing"),
        ("[]", 0, "not a JSON object"),
        ("{}", 1, "ended with exit code 1"),
    ],
)
def test_failed_flow_says_what_iperf3_said(text: str, exit_code: int, words: str) -> None:
    _, error = read_report(FLOW, text, exit_code)
    assert error is not None
    assert words in error


def test_a_udp_flow_sends_datagrams_at_its_rate_and_needs_one() -> None:
    flow = replace(FLOW, congestion_control=None, rate_bps=2_000_000, block_bytes=1000)
    arguments = client_arguments(flow, "10.0.0.2")
    assert "-C" not in arguments
    assert " -u -t 2 -J " in f" {' '.join(arguments)} "
    assert arguments[-4:] == ["-b", "2000000", "-l", "1000"]
    with pytest.raises(TrafficError, match="flow main/a: UDP without a rate or a script"):
        check_flows([replace(flow, rate_bps=None)])
    udp = REPORT | {"end": {"sum_sent": {"bytes": 500_000}, "sum_received": {"bytes": 400_000}}}
    warned = "warning: UDP block size 1472 exceeds TCP MSS 1448\n" + json.dumps(udp)
    assert read_report(flow, warned, 0) == (udp, None)


def test_ports_are_never_handed_out_twice() -> None:
    allocator = PortAllocator()
    pairs = [allocator.next() for _ in range(MAX_FLOWS)]
    ports = [port for pair in pairs for port in pair]
    assert len(set(ports)) == 2 * MAX_FLOWS
    assert max(ports) < 50_000  # where the ephemeral ports begin
    with pytest.raises(TrafficError, match=f"at most {MAX_FLOWS} flows"):
        allocator.next()


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        (replace(FLOW, destination="server1"), "source and destination are both 'server1'"),
        (replace(FLOW, duration_s=0), "duration is 0 s; it must be at least 1 s"),
        (replace(FLOW, start_s=-0.1), r"start is -0.1 s; it must not be negative"),
        (replace(FLOW, rate_bps=0), "rate is 0 bit/s; it must be positive"),
        (
            replace(FLOW, id="main/b", source_port=1),
            "flows main/a and main/b both use port 5301",
        ),
        (replace(FLOW, id="main/b", destination_port=1), "both use port 20001 of host server1"),
    ],
)
def test_impossible_flow_is_refused(flow: FlowSpec, words: str) -> None:
    with pytest.raises(TrafficError, match=words):
        check_flows([FLOW, flow] if flow.id != FLOW.id else [flow])


def test_flow_limited_by_its_application_gets_a_rate() -> None:
    arguments = client_arguments(replace(FLOW, rate_bps=5_000_000, block_bytes=1448), "10.0.0.1")
    assert " ".join(arguments) == (
        "-c 10.0.0.1 -p 5301 --cport 20001 -C bbr -t 2 -J --connect-timeout 5000 -b 5000000 -l 1448"
    )


def test_connecting_may_take_twice_as_long_as_a_message() -> None:
    arguments = client_arguments(replace(FLOW, message_s=51.5), "10.0.0.1")
    assert arguments[arguments.index("--connect-timeout") + 1] == "103000"


def test_a_queue_that_takes_months_gives_a_timeout_that_iperf3_can_read() -> None:
    arguments = client_arguments(replace(FLOW, message_s=1e8), "10.0.0.1")
    assert arguments[arguments.index("--connect-timeout") + 1] == "2147483647"


def test_flows_are_run_and_captured_to_the_last_packet(any_runner: Runner) -> None:
    report = any_runner.result("measured_flows")
    first, second = report["flows"]
    for flow in (first, second):
        assert (flow["state"], flow["error"]) == ("complete", None)
        assert flow["bytes_sent"] > 0
        assert 0 < flow["bytes_received"] <= flow["bytes_sent"]
    # The second flow is due 0.3 s after the start, is never launched before, and reports its delay.
    launched_after_s = (second["launched_ns"] - report["start_ns"]) / 1e9
    assert launched_after_s >= 0.3 - 0.001
    assert second["late_s"] >= 0
    assert report["iperf3_left"] == []
    assert report["unfinished"] == []
    assert all(pair == [0, 0] for pair in report["drops"].values())

    for host, capture in report["captures"].items():
        assert capture["lost"] == 0
        flows = data_flows(Path(capture["path"]))
        assert sum(flows.values()) > 0, host
        expected = {
            "server1": {("10.0.0.2", 20000, "10.0.0.1", 5201)},
            "server2": {("10.0.0.3", 20001, "10.0.0.1", 5202)},
        }
        expected["client"] = expected["server1"] | expected["server2"]
        assert set(flows) == expected[host]
    # Nothing drops packets between the ends, so both captures have the same ones, to the last.
    at_client = data_flows(Path(report["captures"]["client"]["path"]))
    for host in ("server1", "server2"):
        for flow, packets in data_flows(Path(report["captures"][host]["path"])).items():
            assert at_client[flow] == packets


def test_sockets_are_sampled_while_flows_run(runner: Runner) -> None:
    report = runner.result("sampled_flows")
    first, second = report["flows"]
    assert report["unfinished"] == []
    rows = pq.read_table(runner.folder / "sockets.parquet").to_pylist()
    for host, port, control, sent in (
        ("server1", 20000, "reno", first["bytes_sent"]),
        ("server2", 20001, "cubic", second["bytes_sent"]),
    ):
        mine = [row for row in rows if row["src_port"] == port]
        assert len(mine) >= 5
        assert {(row["host"], row["congestion_control"]) for row in mine} == {(host, control)}
        times = [row["time_ns"] for row in mine]
        assert times == sorted(times)
        acked = [row["bytes_acked"] for row in mine]
        assert acked == sorted(acked)
        # SYN and FIN count one each, and iperf3 sends a 37-byte cookie first.
        assert 0 < acked[-1] <= sent + 37 + 2
        assert all(row["min_rtt_ns"] <= row["rtt_ns"] for row in mine if row["min_rtt_ns"])
    assert len(rows) == report["samples"]


def test_data_in_flight_at_the_end_of_a_flow_still_arrive(any_runner: Runner) -> None:
    report = any_runner.result("paced_flow")
    (flow,) = report["flows"]
    assert (flow["state"], report["notes"]) == ("complete", [])
    fin, reset = 1, 4
    first = None
    sent = acknowledged = flags = 0
    for source_port, destination_port, seq, ack, seen, payload in segments(
        any_runner.folder / "pcap" / "server1.pcap"
    ):
        if source_port == 20_000:
            first = seq if first is None else first
            sent = max(sent, (seq - first) % (1 << 32) + payload + (seen & fin))
            flags |= seen
        elif destination_port == 20_000 and first is not None:
            acknowledged = max(acknowledged, (ack - first) % (1 << 32))
            flags |= seen & reset
    print(f"{flow['bytes_received']:,} of {flow['bytes_sent']:,} bytes received when iperf3's server closed")
    # All that iperf3 wrote, its cookie of 37 bytes, SYN and FIN; iperf3's server did not wait for all of it.
    assert acknowledged == sent == flow["bytes_sent"] + 37 + 2
    assert flags & fin
    assert not flags & reset
    assert flow["bytes_received"] < flow["bytes_sent"]


def segments(path: Path) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Ports, sequence and acknowledgment numbers, flags and payload bytes of a pcap's TCP over IPv4."""
    data = path.read_bytes()
    offset = 24
    while offset < len(data):
        kept_bytes, _ = struct.unpack_from("<II", data, offset + 8)
        frame = data[offset + 16 : offset + 16 + kept_bytes]
        offset += 16 + kept_bytes
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        ip_header = (frame[14] & 15) * 4
        ports_at = 14 + ip_header
        source_port, destination_port, seq, ack = struct.unpack_from("!HHII", frame, ports_at)
        (length,) = struct.unpack_from("!H", frame, 16)
        payload = length - ip_header - (frame[ports_at + 12] >> 4) * 4
        yield source_port, destination_port, seq, ack, frame[ports_at + 13], payload


def data_flows(path: Path) -> dict[tuple[str, int, str, int], int]:
    """Packets to iperf3 servers, by data connection, of a pcap with nanosecond time stamps."""
    data = path.read_bytes()
    magic, _, _, _, _, snap_bytes, link_type = struct.unpack_from("<IHHIIII", data)
    assert (magic, snap_bytes, link_type) == (0xA1B23C4D, 128, 1)
    flows: dict[tuple[str, int, str, int], int] = {}
    offset = 24
    while offset < len(data):
        _, nanoseconds, kept_bytes, wire_bytes = struct.unpack_from("<IIII", data, offset)
        assert nanoseconds < 1_000_000_000
        assert wire_bytes <= 1514  # no segment larger than the MTU: offloads are off
        frame = data[offset + 16 : offset + 16 + kept_bytes]
        offset += 16 + kept_bytes
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        source, destination = (".".join(map(str, frame[at : at + 4])) for at in (26, 30))
        source_port, destination_port = struct.unpack_from("!HH", frame, 14 + (frame[14] & 15) * 4)
        if source_port in range(20_000, 50_000):
            key = (source, source_port, destination, destination_port)
            flows[key] = flows.get(key, 0) + 1
    return flows


def test_flow_that_cannot_end_is_killed_and_the_other_one_completes(runner: Runner) -> None:
    report = runner.result("cut_flow")
    cut, whole = report["flows"]
    assert cut["state"] == "killed"
    assert whole["state"] == "complete"
    assert report["problems"] == [f"flow main/a: {cut['error']}"]
    assert "did not end in time and was killed" in cut["error"]
    assert report["iperf3_left"] == []


def test_stop_ends_all_flows(any_runner: Runner) -> None:
    assert any_runner.result("stopped_flows") == {"reason": "interrupted", "iperf3_left": []}


def test_socket_state_is_what_ss_shows(runner: Runner) -> None:
    report = runner.result("socket_against_ss")
    assert len(report["info"]) == 5
    for words in report["info"].values():
        assert words in report["ss"]


def test_silenced_host_sends_nothing_more_and_still_receives(runner: Runner) -> None:
    report = runner.result("silenced_hosts")
    assert report == {"heard": "before", "sent_more": 1, "sent_after": 0, "report": "report"}
