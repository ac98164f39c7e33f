# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import json
import lzma
import struct
import subprocess
import sys
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import weir_core
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet
from scapy.utils import PcapNgWriter

from weir.cli.main import run_cli
from weir.replay.recording import recordings
from weir.replay.segments import Datagram, Segment, segments
from weir.topo.script import parse_script
from weir_tests.analysis.real_captures import MISSING, real_captures

CLIENT, SERVER = (b"\x0a\0\0\1", 50_000), (b"\x0a\0\0\2", 443)
MAC = "02:00:00:00:00:01"
# At the hosts: time, end, offset, bytes, bytes received before. The client's sequence numbers wrap.
ONE_WAY_S = 0.01
ISN = {"client": 2**32 - 300, "server": 7_000}
TALK = (
    (0.02, "client", 0, 517, 0),
    (0.05, "server", 0, 1448, 517),  # 20 ms after the request arrived
    (0.0502, "server", 1448, 1448, 517),
    (0.15, "server", 2896, 1448, 517),  # 100 ms later
    (0.15 + 0.3 + ONE_WAY_S, "client", 517, 80, 4344),  # 300 ms after the response arrived
)


def captured(at_server: bool, *, handshake: bool = True) -> list[Segment]:
    """The segments of TALK in a capture at one of the hosts, in order of time."""
    found = []
    if handshake:
        for number, (side, ack) in enumerate((("client", False), ("server", True), ("client", True))):
            sent_s = number * ONE_WAY_S
            found.append(
                packet(side, sent_s, at_server, -1 if number < 2 else 0, 0, 0 if ack else None, number < 2)
            )
    for sent_s, side, start, size, received in TALK:
        found.append(packet(side, sent_s, at_server, start, size, received, False))
    return sorted(found, key=lambda segment: segment.time_s)


def packet(
    side: str, sent_s: float, at_server: bool, start: int, size: int, received: int | None, syn: bool
) -> Segment:
    far = (side == "server") != at_server
    ends = (CLIENT, SERVER) if side == "client" else (SERVER, CLIENT)
    other = "server" if side == "client" else "client"
    seq = (ISN[side] + 1 + start) % 2**32
    ack = None if received is None else (ISN[other] + 1 + received) % 2**32
    return Segment(sent_s + (ONE_WAY_S if far else 0.0), *ends, seq, ack, syn, size)


def blocks(found: Sequence[Segment]) -> list[tuple[str, int, tuple[tuple[float, int], ...]]]:
    (recording,) = recordings(found)
    assert (recording.client, recording.server) == (CLIENT, SERVER)
    return [(block.side, block.after_bytes, block.writes) for block in recording.script().blocks]


EXPECTED = [
    ("client", 0, ((0.0, 517),)),
    ("server", 517, ((0.02, 2896), (0.12, 1448))),
    ("client", 4344, ((0.3, 80),)),
]


@pytest.mark.parametrize("at_server", [False, True])
def test_the_script_does_not_depend_on_the_capture_point(at_server: bool) -> None:
    assert blocks(captured(at_server)) == EXPECTED


def test_without_the_handshake_the_pauses_of_the_far_end_include_the_round_trip_time() -> None:
    near, far = 0.02, 0.02 + 2 * ONE_WAY_S
    for at_server, pause_s in ((True, near), (False, far)):
        found = blocks(captured(at_server, handshake=False))
        assert [(side, after) for side, after, _ in found] == [(side, after) for side, after, _ in EXPECTED]
        assert found[1][2][0] == (pytest.approx(pause_s), 2896)


def test_retransmitted_or_reordered_data_is_written_once() -> None:
    whole = captured(at_server=True)
    again = [*whole[:5], whole[4], *whole[5:]]  # the first response, retransmitted
    assert blocks(again) == EXPECTED
    first, second = whole[4], whole[5]
    overtaken = [*whole[:4], second, first, *whole[6:]]
    assert [(side, after, sum(size for _, size in writes)) for side, after, writes in blocks(overtaken)] == [
        ("client", 0, 517),
        ("server", 517, 4344),
        ("client", 4344, 80),
    ]


def test_successive_connections_on_the_same_ports_are_separate() -> None:
    first = captured(at_server=True)
    later = [Segment(s.time_s + 9, s.source, s.destination, s.seq, s.ack, s.syn, s.payload) for s in first]
    assert [one.payload for one in recordings([*first, *later])] == [4941, 4941]


def ip(source: bytes, destination: bytes, *, v6: bool) -> Packet:
    """An IP header with two IPv4 addresses, or with IPv6 addresses that end with them."""
    ends = [ip_address(end.rjust(16, b"\xfd") if v6 else end) for end in (source, destination)]
    return (IPv6 if v6 else IP)(src=str(ends[0]), dst=str(ends[1]))


def frame(segment: Segment, *, v6: bool = False, vlan: bool = False) -> bytes:
    """The segment in an Ethernet frame; its payload is zeros."""
    tcp = TCP(
        sport=segment.source[1],
        dport=segment.destination[1],
        seq=segment.seq,
        ack=segment.ack or 0,
        flags=("S" if segment.syn else "") + ("A" if segment.ack is not None else ""),
        options=[("NOP", None), ("NOP", None), ("Timestamp", (0, 0))],
    )
    ethernet = Ether(src=MAC, dst=MAC) / Dot1Q(vlan=5) if vlan else Ether(src=MAC, dst=MAC)
    network = ip(segment.source[0], segment.destination[0], v6=v6)
    return bytes(ethernet / network / tcp / bytes(segment.payload))


def pcap(frames: Iterable[tuple[float, bytes]]) -> bytes:
    """A nanosecond pcap file of (time in seconds, Ethernet frame)."""
    records = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)]
    for time_s, data in frames:
        records.append(struct.pack("<IIII", *divmod(round(time_s * 1e9), 10**9), len(data), len(data)) + data)
    return b"".join(records)


def capture(found: Sequence[Segment], snap_bytes: int = 65_535, **how: bool) -> bytes:
    return pcap((segment.time_s, frame(segment, **how)[:snap_bytes]) for segment in found)


@pytest.mark.parametrize("how", [{}, {"v6": True}, {"vlan": True}])
def test_truncated_packets_yield_the_same_blocks(tmp_path: Path, how: dict[str, bool]) -> None:
    path = tmp_path / "talk.pcap.xz"
    path.write_bytes(lzma.compress(capture(captured(at_server=True), 128, **how)))
    (recording,) = recordings(segments(path))
    assert [(block.side, block.after_bytes) for block in recording.script().blocks] == [
        (side, after) for side, after, _ in EXPECTED
    ]
    assert recording.payload == 4941


def test_pcapng_is_supported(tmp_path: Path) -> None:
    path = tmp_path / "talk.pcapng"
    with PcapNgWriter(str(path)) as writer:
        for segment in captured(at_server=True):
            packet = Ether(frame(segment))
            packet.time = segment.time_s
            writer.write(packet)
    (recording,) = recordings(segments(path))
    assert recording.payload == 4941


def test_two_captures_become_one_file_that_plays_both_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "talk.pcap", tmp_path / "twice.replay"
    path.write_bytes(capture(captured(at_server=True)))
    assert run_cli(["trace", str(path), str(path), "-o", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    script = parse_script(out.read_text(), str(out))
    assert (answer["server_bytes"], answer["client_bytes"]) == (2 * 4344, 2 * 597)
    assert answer["sha256"] == script.sha256
    assert [block.after_bytes for block in script.of("server")] == [517, 597 + 517]
    assert script.about["connections"] == ["10.0.0.1:50000-10.0.0.2:443"] * 2


def test_a_connection_is_chosen_by_name_in_either_direction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "talk.pcap", tmp_path / "talk.replay"
    path.write_bytes(capture(captured(at_server=True)))
    command = ["trace", str(path), "-o", str(out), "--flow"]
    assert run_cli([*command, "10.0.0.2:443-10.0.0.1:50000"]) == 0
    out.unlink()
    assert run_cli([*command, "10.0.0.2:443-10.0.0.9:1"]) == 2
    assert "valid: 10.0.0.1:50000-10.0.0.2:443" in capsys.readouterr().err
    assert not out.exists()


# Time, end, bytes. The client sends the first datagram; two of the server's are 100 µs apart.
CALL = (
    (0.0, "client", 1200),
    (0.03, "server", 1200),
    (0.0301, "server", 40),
    (0.2, "client", 33),
    (0.21, "server", 0),
)


def call(*, v6: bool = False, snap_bytes: int = 65_535) -> bytes:
    """A capture of the datagrams of CALL; their payload is zeros."""
    frames = []
    for time_s, side, size in CALL:
        source, destination = (CLIENT, SERVER) if side == "client" else (SERVER, CLIENT)
        udp = UDP(sport=source[1], dport=destination[1]) / bytes(size)
        whole = bytes(Ether(src=MAC, dst=MAC) / ip(source[0], destination[0], v6=v6) / udp)
        frames.append((5.0 + time_s, whole[:snap_bytes]))
    return pcap(frames)


@pytest.mark.parametrize("how", [{}, {"v6": True}, {"snap_bytes": 64}])
def test_datagrams_keep_their_capture_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: dict[str, Any]
) -> None:
    path, out = tmp_path / "call.pcap", tmp_path / "call.replay"
    path.write_bytes(call(**how))
    assert run_cli(["trace", str(path), "-o", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["protocol"], answer["writes"], answer["recorded_s"], answer["notes"]) == (
        "udp",
        4,
        0.2,
        [],
    )
    script = parse_script(out.read_text(), str(out))
    assert script.protocol == "udp"
    assert [(block.side, block.after_bytes, block.writes) for block in script.blocks] == [
        ("client", 0, ((0.0, 1200), (0.2, 33))),
        ("server", 0, ((0.03, 1200), (0.0301, 40))),
    ]


def test_datagrams_and_a_connection_on_the_same_ports_are_separate(tmp_path: Path) -> None:
    talk = captured(at_server=True)
    datagrams = [Datagram(one.time_s, one.source, one.destination, 9) for one in talk]
    both = recordings([one for pair in zip(talk, datagrams, strict=True) for one in pair])
    assert [one.script().protocol for one in both] == ["tcp", "udp"]
    assert [one.payload for one in both] == [4941, 9 * len(talk)]


def test_datagrams_of_several_captures_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "call.pcap", tmp_path / "twice.replay"
    path.write_bytes(call())
    assert run_cli(["trace", str(path), str(path), "-o", str(out)]) == 2
    assert "is UDP, whose ends do not wait for each other; valid: one capture" in capsys.readouterr().err
    assert not out.exists()


WHOLE = capture(captured(at_server=True))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no capture at all, but text of some length",
        WHOLE[:20] + b"\x7f\0\0\0",  # IEEE 802.11 with radiotap headers
        WHOLE + WHOLE[24:31],
        lzma.compress(WHOLE)[:-40],
    ],
)
def test_a_damaged_or_unsupported_capture_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes
) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(data)
    with pytest.raises(weir_core.CaptureError, match=r"x\.pcap: .*valid "):
        list(segments(path))
    assert run_cli(["trace", str(path), "-o", str(tmp_path / "x.replay")]) == 2
    assert capsys.readouterr().err.startswith(f"weir: {path}: ")


def test_a_capture_that_was_killed_while_it_wrote_a_frame_is_read_up_to_it(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(WHOLE)
    whole = list(segments(path))
    path.write_bytes(WHOLE[:-1])
    assert list(segments(path)) == whole[:-1]


def test_the_user_learns_that_a_capture_ends_inside_a_packet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.pcap"
    for data, notes in (
        (WHOLE, []),
        (WHOLE[:-1], [f"{path}: the file ends inside a record; what came before is used"]),
    ):
        path.write_bytes(data)
        assert run_cli(["trace", str(path), "-o", str(tmp_path / "x.replay"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["notes"] == notes


def test_the_error_of_a_missing_file_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_cli(["trace", "absent.pcap", "-o", "x.replay"]) == 2
    said = "weir: absent.pcap: No such file or directory; valid is a readable capture\n"
    assert capsys.readouterr().err == said


def test_a_capture_is_read_from_standard_input(tmp_path: Path) -> None:
    out = tmp_path / "x.replay"
    weir = "from weir.cli.main import main; main()"
    command = [sys.executable, "-c", weir, "trace", "-", "-o", str(out)]
    subprocess.run(command, input=gzip.compress(WHOLE), check=True)
    assert parse_script(out.read_text(), "x").about["captures"] == ["-"]


def test_a_published_capture_becomes_a_script() -> None:
    paths = real_captures("*CD=500-PCIR=10000000-PBC=100000-*.pcap.xz")
    if not paths:
        pytest.skip(MISSING)
    recording = recordings(segments(paths[0]))[0]
    script = recording.script()
    print(f"{recording.name}: {script.bytes_of('server'):,} bytes in {recording.duration_s:.1f} s")
    assert parse_script(script.text, "x").blocks == script.blocks
    # The written data passed a policer of 10 Mbit/s and 100 kB; retransmissions are not counted.
    assert script.bytes_of("server") * 8 < 10e6 * recording.duration_s + 100e3 * 8
    assert script.bytes_of("server") > 10**6
