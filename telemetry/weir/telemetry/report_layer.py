# SPDX-License-Identifier: Apache-2.0
"""Telemetry Report Format 2.0 for scapy, with weir's domain metadata (docs/spec/telemetry-report.md).

>>> from scapy.layers.inet import IP, UDP
>>> from weir.telemetry.report_layer import Report, TelemetryReport
>>> report = Report(dropped=1, rep_md_bits="drop", drop_reason=70)
>>> packet = IP() / UDP() / TelemetryReport(node_id=1, sequence=7, reports=[report])
>>> TelemetryReport(bytes(packet[TelemetryReport])).reports[0].drop_reason
70

Importing the module registers UDP port 32766 with scapy. scapy is installed with `weir-policer[decode]`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, ClassVar

from scapy.config import conf
from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    FlagsField,
    IntField,
    LongField,
    PacketListField,
    ShortField,
    StrField,
    ThreeBytesField,
    XByteField,
    XShortEnumField,
    XShortField,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers

UDP_PORT = 32766
WEIR_DOMAIN = 0x5745
"""Domain id of weir's own metadata: "WE" in ASCII."""
TO_THE_END = 255
"""The report length that means "to the end of the datagram"."""
_INT = 1
_GROUP_BYTES, _HEAD_BYTES, _MAIN_BYTES, _WORD_BYTES = 8, 4, 8, 4
_INNER: dict[int, type[Packet]] = {3: Ether, 4: IP, 5: IPv6}

REP_TYPES = {0: "Inner Only", 1: "INT", 2: "IOAM"}
IN_TYPES = {0: "None", 1: "TLV", 2: "Domain Extension", 3: "Ethernet", 4: "IPv4", 5: "IPv6"}
COLOURS = {0: "green", 1: "yellow", 2: "red"}
# From the least significant bit, as scapy counts.
_BASELINE = ["drop", *(f"r{n}" for n in range(14, 8, -1)), "buffer", "tx_utilization", "logical_interfaces"]
_BASELINE += ["egress_ns", "ingress_ns", "queue", "hop_latency", "interfaces", "r0"]
_WEIR = [*(f"r{n}" for n in range(15, 3, -1)), "queue_lost", "packet_number", "wire_length", "verdict"]


def _bit(n: int) -> int:
    """Bit `n` of a 16-bit map; the format counts from the most significant one."""
    return 0x8000 >> n


def baseline_words(bits: int) -> int:
    """The number of metadata words for RepMdBits: two for each of bits 4 to 6, one for each other bit."""
    return sum(2 if 4 <= n <= 6 else 1 for n in range(16) if bits & _bit(n))


def domain_words(domain_id: int, bits: int) -> int:
    """The number of metadata words for DSMdBits of weir's domain; 0 for other, unknown domains."""
    return sum(bool(bits & _bit(n)) for n in range(4)) if domain_id == WEIR_DOMAIN else 0


def report_end(words: int, available: int) -> int:
    """The end of a report of `words` words within the `available` bytes after its first word.

    A remainder of fewer than four bytes cannot be another report and belongs to this one.
    """
    stated = words * _WORD_BYTES
    return available if words == TO_THE_END or stated + _HEAD_BYTES > available else stated


def _if_bit(n: int, field: Any) -> ConditionalField:
    return ConditionalField(field, lambda packet: bool(packet.rep_md_bits & _bit(n)))


def _if_weir(n: int, field: Any) -> ConditionalField:
    return ConditionalField(
        field, lambda packet: packet.domain_id == WEIR_DOMAIN and bool(packet.ds_md_bits & _bit(n))
    )


class _DomainData(StrField):
    """The rest of the metadata, by its length, after the known fields."""

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, bytes]:
        known = baseline_words(pkt.rep_md_bits) + domain_words(pkt.domain_id, pkt.ds_md_bits)
        length = max(0, (pkt.metadata_length or 0) - known) * _WORD_BYTES
        return s[length:], s[:length]


class Report(Packet):
    """One individual report; its payload is the inner packet. Lengths are computed unless given."""

    name = "Report"
    fields_desc: ClassVar[list[Any]] = [
        BitEnumField("rep_type", _INT, 4, REP_TYPES),
        BitEnumField("inner_type", 0, 4, IN_TYPES),
        ByteField("report_length", None),
        ByteField("metadata_length", None),
        BitField("dropped", 0, 1),
        BitField("congested", 0, 1),
        BitField("tracked", 0, 1),
        BitField("intermediate", 0, 1),
        BitField("reserved", 0, 4),
        FlagsField("rep_md_bits", 0, 16, _BASELINE),
        XShortEnumField("domain_id", 0, {0: "default", WEIR_DOMAIN: "weir"}),
        FlagsField("ds_md_bits", 0, 16, _WEIR),
        XShortField("domain_status", 0),
        _if_bit(0, IntField("reserved_0", 0)),
        _if_bit(1, ShortField("ingress_interface", 0)),
        _if_bit(1, ShortField("egress_interface", 0)),
        _if_bit(2, IntField("hop_latency", 0)),
        _if_bit(3, ByteField("queue_id", 0)),
        _if_bit(3, ThreeBytesField("queue_occupancy", 0)),
        _if_bit(4, LongField("ingress_ns", 0)),
        _if_bit(5, LongField("egress_ns", 0)),
        _if_bit(6, IntField("logical_ingress_interface", 0)),
        _if_bit(6, IntField("logical_egress_interface", 0)),
        _if_bit(7, IntField("tx_utilization", 0)),
        _if_bit(8, ByteField("buffer_id", 0)),
        _if_bit(8, ThreeBytesField("buffer_occupancy", 0)),
        *(_if_bit(n, IntField(f"reserved_{n}", 0)) for n in range(9, 15)),
        _if_bit(15, ByteField("drop_queue_id", 0)),
        _if_bit(15, ByteField("drop_reason", 0)),
        _if_bit(15, XShortField("drop_padding", 0)),
        _if_weir(0, ShortField("policer", 0)),
        _if_weir(0, ByteEnumField("colour", 0, COLOURS)),
        _if_weir(0, XByteField("verdict_reserved", 0)),
        _if_weir(1, IntField("wire_length", 0)),
        _if_weir(2, IntField("packet_number", 0)),
        _if_weir(3, IntField("queue_lost", 0)),
        _DomainData("domain_data", b""),
    ]

    def guess_payload_class(self, payload: bytes) -> type[Packet]:
        """The layer of the inner contents; raw bytes where they are no packet."""
        inner: type[Packet] = _INNER.get(self.inner_type, conf.raw_layer)
        return inner

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in lengths that were not given; the report's is rounded up to words."""
        metadata_words = (len(pkt) - _HEAD_BYTES - _MAIN_BYTES) // _WORD_BYTES
        words = 2 + metadata_words + -(-len(pay) // _WORD_BYTES)
        given = (self.report_length, self.metadata_length)
        report, metadata = min(words, TO_THE_END) if given[0] is None else given[0], given[1]
        lengths = bytes([report, metadata_words if metadata is None else metadata])
        return pkt[:1] + lengths + pkt[3:] + pay


class _Reports(PacketListField):
    """The reports up to the end of the datagram."""

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, list[Packet]]:
        return b"", [Report(part) for part in _split(s)]


def _split(reports: bytes) -> Iterator[bytes]:
    while len(reports) >= _HEAD_BYTES:
        end = _HEAD_BYTES + report_end(reports[1], len(reports) - _HEAD_BYTES)
        yield reports[:end]
        reports = reports[end:]


class TelemetryReport(Packet):
    """The payload of a report datagram: the group header and its reports."""

    name = "TelemetryReport"
    fields_desc: ClassVar[list[Any]] = [
        BitField("version", 2, 4),
        BitField("hw_id", 0, 6),
        BitField("sequence", 0, 22),
        IntField("node_id", 0),
        _Reports("reports", [], Report),
    ]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *args: Any, **kwargs: Any) -> type[Packet]:
        """Leave a payload that `refusal` rejects as raw bytes."""
        raw: type[Packet] = conf.raw_layer
        return raw if _pkt is not None and refusal(_pkt) else cls

    def mysummary(self) -> str:
        """One line with node id and sequence number."""
        return str(self.sprintf("TelemetryReport node %node_id% sequence %sequence%"))


def refusal(payload: bytes) -> str | None:
    """The specification's name of the error that makes a payload no report; None for a valid one."""
    if len(payload) < _GROUP_BYTES:
        return "truncated"
    if payload[0] >> 4 != 2:
        return "version"
    rest = payload[_GROUP_BYTES:]
    while True:
        if len(rest) < _HEAD_BYTES:
            return "truncated"
        kind, words, metadata_words = rest[:3]
        if kind >> 4 != _INT:
            return "rep_type"
        if words != TO_THE_END and words < 2 + metadata_words:
            return "report_length"
        end = report_end(words, len(rest) - _HEAD_BYTES)
        if end < _MAIN_BYTES + metadata_words * _WORD_BYTES:
            return "truncated"
        bits, domain, domain_bits = struct.unpack_from("!HHH", rest, _HEAD_BYTES)
        if metadata_words < baseline_words(bits) + domain_words(domain, domain_bits):
            return "metadata_length"
        rest = rest[_HEAD_BYTES + end :]
        if not rest:
            return None


bind_layers(UDP, TelemetryReport, dport=UDP_PORT)
