# SPDX-License-Identifier: Apache-2.0
import struct
from pathlib import Path

import pytest

from weir.telemetry.captures import CaptureFormatError, Record, read_pcap, write_pcap

RECORDS = [
    Record(0, b"a" * 60),
    Record(1_700_000_000_123_456_789, b"b" * 1514),
    Record(2**32 * 10**9 - 1, b""),
]


def raw(order: str, magic: int, link: int = 1, records: bytes = b"") -> bytes:
    return struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link) + records


def test_written_records_are_read_back_to_the_nanosecond(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    assert write_pcap(path, RECORDS) == 3
    assert list(read_pcap(path)) == RECORDS


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "tick_ns"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_either_byte_order_and_unit_is_read(tmp_path: Path, order: str, magic: int, tick_ns: int) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(raw(order, magic, records=struct.pack(order + "IIII", 7, 42, 3, 3) + b"abc"))
    assert list(read_pcap(path)) == [Record(7_000_000_000 + 42 * tick_ns, b"abc")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no pcap file"),
        (b"\x0a\x0d\x0d\x0a" + bytes(30), "a pcapng file"),
        (raw("<", 0xA1B2C3D4)[:20], "ends in the file header"),
        (raw("<", 0xA1B2C3D4, link=101), "link type 101; valid: 1 (Ethernet)"),
        (raw("<", 0xA1B2C3D4, records=b"1234567"), "record 1: the file ends in its header"),
        (
            raw("<", 0xA1B2C3D4, records=struct.pack("<IIII", 0, 0, 9, 9)),
            "record 1: the file ends in its frame",
        ),
        (raw("<", 0xA1B2C3D4, records=struct.pack("<IIII", 0, 0, 2, 9) + b"ab"), "cut to 2 of 9 bytes"),
        (raw("<", 0xA1B2C3D4, records=struct.pack("<IIII", 0, 0, 2**31, 2**31)), "valid: at most 262144"),
    ],
)
def test_an_invalid_or_incomplete_capture_is_refused_with_file_and_record(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    with pytest.raises(CaptureFormatError) as refused:
        list(read_pcap(path))
    assert problem in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_time_that_the_format_cannot_represent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="valid: 0 to"):
        write_pcap(tmp_path / "a.pcap", [Record(-1, b"")])
