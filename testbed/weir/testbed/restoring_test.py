# SPDX-License-Identifier: Apache-2.0
"""Captures reduced to headers as on a host, and restored: nothing that the analysis reads is different."""

from __future__ import annotations

import io
import random
import struct
import subprocess
from pathlib import Path

import pytest

from weir.testbed.remote import headers
from weir.testbed.restoring import DamagedError, restore
from weir.testbed.scripts import module_command
from weir_tests.testbed.pcaps import read, written

Records = list[headers.Record]
_HOSTS = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
_HOSTS6 = tuple(bytes([0xFD, *[0] * 14, number]) for number in (1, 2))


def restored(tmp_path: Path, records: Records, order: str = "<") -> Records:
    """The records after the way from a host; the host's program runs as it does there."""
    source, back = tmp_path / "run-a.pcap", tmp_path / "back.pcap"
    written(source, records, order)
    size = source.stat().st_size
    argv = module_command("weir.testbed.remote.headers", [str(source)])
    subprocess.run(argv, check=True)
    assert not source.exists()
    assert restore(tmp_path / "run-a.pcap.headers", back) == size
    return read(back)


def expected(record: headers.Record) -> headers.Record:
    """What is left of a record with TCP or UDP over plain IP: no payload, no checksums."""
    time_ns, wire, frame = record
    head = bytearray(frame)
    at = 34 if head[12:14] == b"\x08\x00" else 54
    is_tcp = head[23 if at == 34 else 20] == headers.TCP
    end = at + (head[at + 12] >> 4) * 4 if is_tcp else at + 8
    if at == 34:
        head[24:26] = bytes(2)
        place = at + (16 if is_tcp else 6)
        head[place : place + 2] = bytes(2)
    return time_ns, wire, bytes(head[:end])


def segment(draw: random.Random, flow: int, seq: int, *, version: int = 4) -> tuple[int, bytes]:
    """The length of a drawn TCP segment of a flow, and its first 128 bytes."""
    stamps = headers.TIMESTAMPS + struct.pack(">II", draw.getrandbits(32), draw.getrandbits(32))
    edges = [draw.getrandbits(32) for _ in range(2 * draw.randrange(1, 4))]
    sack = headers.SACK + bytes([2 + 4 * len(edges)]) + struct.pack(f">{len(edges)}I", *edges)
    odd = bytes(draw.randrange(256) for _ in range(4 * draw.randrange(11)))
    options = draw.choice([b"", stamps, stamps, stamps + sack, sack, odd, stamps + odd[:28]])
    size = draw.choice([0, 1448, draw.randrange(1448)])
    flags = (5 + len(options) // 4) << 12 | draw.choice([0x10, 0x18, 0x02, 0x11, 0x1C2])
    ports = struct.pack(">HH", 5201 + flow, 40_000)
    tcp = ports + struct.pack(">IIHH", seq, draw.getrandbits(32), flags, draw.getrandbits(16))
    tcp += struct.pack(">HH", draw.getrandbits(16), draw.choice([0, 0, 0, 7])) + options
    return packet(draw, tcp, len(tcp) + size, headers.TCP, version)


def datagram(draw: random.Random, *, version: int = 4) -> tuple[int, bytes]:
    """As `segment`, of UDP."""
    size = 8 + draw.randrange(1400)
    udp = struct.pack(">HHHH", 5301, 40_001, size, draw.getrandbits(16))
    return packet(draw, udp, size, headers.UDP, version)


def packet(
    draw: random.Random, transport: bytes, size: int, protocol: int, version: int
) -> tuple[int, bytes]:
    """Ethernet and IP in front of `size` bytes that begin with `transport`; padded as on real links."""
    if version == 4:
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, draw.getrandbits(16), 0x4000, 64, protocol, 7)
        ip, kind = ip + b"".join(_HOSTS), b"\x08\x00"
    else:
        ip = struct.pack(">IHBB", 6 << 28 | 77, size, protocol, 64) + b"".join(_HOSTS6)
        kind = b"\x86\xdd"
    frame = bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]) + kind + ip + transport
    wire = max(60, 14 + len(ip) + size)
    return wire, (frame + bytes(draw.randrange(256) for _ in range(160)))[: min(128, wire)]


def drawn(seed: int, count: int) -> Records:
    """Records of a few flows; times go back, as those of a clock that is set."""
    draw = random.Random(seed)
    now, records, seq = 1_700_000_000_999_999_000, [], 4_294_000_000
    for _ in range(count):
        now += draw.choice([12, 350_000, 2_000_000_000, -5_000_000])
        seq = (seq + draw.choice([0, 1448, 1448, -2896])) % 2**32
        version = draw.choice([4, 4, 6])
        kind = draw.randrange(6)
        wire, frame = (
            datagram(draw, version=version)
            if kind == 0
            else segment(draw, draw.randrange(3), seq, version=version)
        )
        records.append((now, wire, frame))
    return records


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("seed", range(4))
def test_times_lengths_and_headers_are_those_of_the_capture(tmp_path: Path, seed: int, order: str) -> None:
    records = drawn(seed, 400)
    assert restored(tmp_path, records, order) == [expected(record) for record in records]


def test_flows_go_on_in_the_next_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "BLOCK_RECORDS", 7)
    records = drawn(5, 100)
    written(tmp_path / "a.pcap", records)
    with (tmp_path / "a.pcap").open("rb") as source, (tmp_path / "a.headers").open("wb") as target:
        headers.reduce(source, target)
    restore(tmp_path / "a.headers", tmp_path / "b.pcap")
    assert read(tmp_path / "b.pcap") == [expected(record) for record in records]


def unlike() -> Records:
    """Frames that are not TCP or UDP over plain IP, or not wholly captured."""
    draw = random.Random(9)
    wire, tcp = segment(draw, 0, 5)
    _, udp = datagram(draw)
    changed = [tcp[:length] for length in (0, 5, 13, 14, 20, 33, 40, 53)]
    changed.append(tcp[:14] + b"\x46" + tcp[15:])  # IP options
    changed.append(tcp[:20] + b"\x20\x00" + tcp[22:])  # a fragment, and a later one
    changed.append(tcp[:20] + b"\x00\x10" + tcp[22:])
    changed.append(tcp[:23] + b"\x01" + tcp[24:])  # ICMP
    changed.append(tcp[:46] + b"\x40\x10" + tcp[48:])  # a TCP header shorter than its least
    changed.append(tcp[:16] + b"\x00\x00" + tcp[18:])  # no length, as of a segmented frame
    changed.append(udp[:38] + b"\x00\x01" + udp[40:])  # UDP with another length
    changed.append(tcp[:12] + b"\x81\x00\x00\x01" + tcp[12:])  # a VLAN tag
    changed.append(tcp[:12] + b"\x08\x06" + tcp[14:])  # ARP
    return [(number, wire, frame) for number, frame in enumerate(changed)]


def test_other_frames_stay_as_they_are(tmp_path: Path) -> None:
    assert restored(tmp_path, unlike()) == unlike()


def test_an_empty_capture_stays_one(tmp_path: Path) -> None:
    assert restored(tmp_path, []) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xd4\xc3\xb2\xa1" + bytes(20), "no pcap with nanoseconds"),
        (b"", "no pcap with nanoseconds"),
        (struct.pack("<IHHiIII", headers.MAGIC_NS, 2, 4, 0, 0, 128, 113), "link type is 113"),
        (struct.pack("<IHHiIII4I", headers.MAGIC_NS, 2, 4, 0, 0, 128, 1, 0, 0, 9, 9), "ends inside a record"),
    ],
)
def test_what_is_no_capture_of_ours_is_refused_and_kept(tmp_path: Path, content: bytes, said: str) -> None:
    source = tmp_path / "run-a.pcap"
    source.write_bytes(content)
    argv = module_command("weir.testbed.remote.headers", [str(source)])
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert said in done.stderr
    assert source.read_bytes() == content


def test_a_file_that_was_cut_is_damaged(tmp_path: Path) -> None:
    written(tmp_path / "a.pcap", drawn(6, 50))
    whole = io.BytesIO()
    with (tmp_path / "a.pcap").open("rb") as source:
        headers.reduce(source, whole)
    for length in (0, 10, 200, len(whole.getvalue()) - 30):
        (tmp_path / "a.headers").write_bytes(whole.getvalue()[:length])
        with pytest.raises(DamagedError):
            restore(tmp_path / "a.headers", tmp_path / "b.pcap")


def test_whatever_a_host_sends_is_restored_or_damaged(tmp_path: Path) -> None:
    written(tmp_path / "a.pcap", drawn(7, 60))
    whole = io.BytesIO()
    with (tmp_path / "a.pcap").open("rb") as source:
        headers.reduce(source, whole)
    draw, damaged = random.Random(8), 0
    lines = whole.getvalue().index(b"\n", 30)  # the end of the first two, which are short
    for number in range(600):
        changed = bytearray(whole.getvalue())
        for _ in range(draw.randrange(1, 4)):
            place = draw.randrange(lines if number % 2 else len(changed))
            changed[place] = draw.choice([draw.randrange(256), ord("0") + draw.randrange(10)])
        (tmp_path / "a.headers").write_bytes(changed)
        try:
            restore(tmp_path / "a.headers", tmp_path / "b.pcap")
        except DamagedError:
            damaged += 1
    assert damaged > 300
