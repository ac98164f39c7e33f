# SPDX-License-Identifier: Apache-2.0
"""A capture as its TCP segments and UDP datagrams, in the order of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import dpkt

from weir.analysis.capture_files import readable
from weir.replay.errors import ReplayError

_UDP_HEADER_BYTES = 8
End = tuple[bytes, int]
"""Address as on the wire, and port."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One TCP segment: when it was captured, and what its headers say. `payload` is bytes on the wire."""

    time_s: float
    source: End
    destination: End
    seq: int
    ack: int | None
    syn: bool
    payload: int


@dataclass(frozen=True, slots=True)
class Datagram:
    """One UDP datagram; `payload` as in `Segment`, of all its fragments together."""

    time_s: float
    source: End
    destination: End
    payload: int


def name_of(source: End, destination: End) -> str:
    """A connection or flow as every command names it: SRC:PORT-DST:PORT."""
    return "-".join(f"{ip_address(address)}:{port}" for address, port in (source, destination))


def segments(path: Path) -> Iterator[Segment | Datagram]:
    """The TCP segments and UDP datagrams of a capture; whatever else is in it is passed over.

    Raises ReplayError for a file that is no capture or is damaged, CompressionError, OSError.
    """
    with readable(path) as plain, plain.open("rb") as file:
        try:
            reader = dpkt.pcap.UniversalReader(file)
            decode = _DECODERS.get(reader.datalink())
            if decode is None:
                raise ReplayError(
                    f"{path}: its link type is {reader.datalink()}; valid: Ethernet, Linux cooked, raw IP"
                )
            for time_s, frame in reader:
                segment = _segment(float(time_s), decode, frame)
                if segment is not None:
                    yield segment
        except (ValueError, EOFError, dpkt.dpkt.Error) as error:
            if isinstance(error, ReplayError):
                raise
            raise ReplayError(f"{path}: {error or 'cut off'}; valid: a pcap or pcapng capture") from error


def _raw(frame: bytes) -> Any:
    return dpkt.ip6.IP6(frame) if frame[:1] and frame[0] >> 4 == 6 else dpkt.ip.IP(frame)


_DECODERS: dict[int, Callable[[bytes], Any]] = {
    dpkt.pcap.DLT_EN10MB: lambda frame: dpkt.ethernet.Ethernet(frame).data,
    dpkt.pcap.DLT_LINUX_SLL: lambda frame: dpkt.sll.SLL(frame).data,
    dpkt.pcap.DLT_LINUX_SLL2: lambda frame: dpkt.sll2.SLL2(frame).data,
    12: _raw,  # raw IP, as BSDs number it
    dpkt.pcap.DLT_RAW: _raw,
    101: _raw,
}
"""How a link type's frame becomes its IP packet."""


def _segment(time_s: float, decode: Callable[[bytes], Any], frame: bytes) -> Segment | Datagram | None:
    try:
        packet = decode(frame)
    except (dpkt.dpkt.UnpackError, IndexError):
        return None
    if not isinstance(packet, dpkt.ip.IP | dpkt.ip6.IP6):
        return None
    if isinstance(packet.data, dpkt.udp.UDP):
        udp = packet.data
        ends = (packet.src, udp.sport), (packet.dst, udp.dport)
        return Datagram(time_s, *ends, max(0, udp.ulen - _UDP_HEADER_BYTES))
    if not isinstance(packet.data, dpkt.tcp.TCP):
        return None
    tcp = packet.data
    # Of a frame that the snap length cut, only the headers tell how long it was.
    if isinstance(packet, dpkt.ip.IP):
        carried = packet.len - packet.hl * 4
    else:
        carried = packet.plen - sum(len(header) for header in packet.all_extension_headers)
    return Segment(
        time_s=time_s,
        source=(packet.src, tcp.sport),
        destination=(packet.dst, tcp.dport),
        seq=tcp.seq,
        ack=tcp.ack if tcp.flags & dpkt.tcp.TH_ACK else None,
        syn=bool(tcp.flags & dpkt.tcp.TH_SYN),
        payload=max(0, carried - tcp.off * 4),
    )
