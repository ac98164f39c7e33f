# SPDX-License-Identifier: Apache-2.0
"""Converts the segments of a connection to a script: what each end wrote, when, and after receiving what.

A segment beyond the highest sequence number so far is a write; retransmissions are not. Its acknowledgment
number is the amount of data that the end had received, and the script makes the write wait for as much. The
capture point does not affect what is written. The times of writes are corrected by the round-trip time from
the capture point to each end, which the handshake shows. UDP datagrams keep their times in the capture.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Protocol

from weir.replay.segments import Datagram, End, Segment, name_of
from weir.topo.script import Block, Script, Side

MERGED_S = 0.001
"""Segments of one end closer together than this are merged into one write."""
_WRAP = 1 << 32


@dataclass
class _Direction:
    """The byte stream of one end, with the capture times of its data."""

    first: int | None = None
    """Sequence number of its first byte."""
    written: int = 0
    """Bytes from its start to the highest sequence number so far."""
    ends: list[int] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    """Capture time at which the bytes up to each of `ends` were complete."""
    acked: int = 0
    """Bytes of the other end that it had received at its last segment."""

    def offset(self, number: int) -> int:
        """Unwrap a sequence number to an offset from the start: the one nearest to `written`."""
        if self.first is None:
            self.first = number
        near = (number - self.first - self.written) % _WRAP
        return self.written + (near if near < _WRAP // 2 else near - _WRAP)

    def seen_at(self, count: int) -> float:
        """Capture time at which its first `count` bytes were complete."""
        return self.times_s[bisect_left(self.ends, count)]


@dataclass(frozen=True)
class _Write:
    side: Side
    time_s: float
    size: int
    after: int


class Recording(Protocol):
    """A TCP connection or UDP flow between two ends, reconstructed from a capture."""

    client: End
    server: End

    @property
    def name(self) -> str:
        """SRC:PORT-DST:PORT, the client first."""

    @property
    def payload(self) -> int:
        """Payload bytes of both ends."""

    @property
    def from_start(self) -> bool:
        """Whether the capture has everything that exact write times need."""

    @property
    def duration_s(self) -> float:
        """Time from its beginning to its last write."""

    def script(self) -> Script:
        """Convert it to a script."""


class Connection:
    """A TCP connection; `add` its segments in the order of the capture."""

    def __init__(self, client: End, server: End) -> None:
        """The client is the end that sent the SYN, or a guess if the capture lacks the handshake."""
        self.client, self.server = client, server
        self._ends: dict[Side, _Direction] = {"client": _Direction(), "server": _Direction()}
        self._writes: list[_Write] = []
        self._syn_s: float | None = None
        self._syn_ack_s: float | None = None
        self._open_s: float | None = None

    @property
    def name(self) -> str:
        """SRC:PORT-DST:PORT, the client first."""
        return name_of(self.client, self.server)

    @property
    def payload(self) -> int:
        """Payload bytes of both ends."""
        return sum(end.written for end in self._ends.values())

    @property
    def from_start(self) -> bool:
        """Whether the capture has its handshake."""
        return self._syn_s is not None and self._syn_ack_s is not None

    def add(self, segment: Segment) -> None:
        """Add a segment of this connection."""
        side: Side = "client" if segment.source == self.client else "server"
        own, other = self._ends[side], self._ends["server" if side == "client" else "client"]
        if segment.syn:
            own.first = (segment.seq + 1) % _WRAP
            if side == "client":
                self._syn_s = segment.time_s
            else:
                self._syn_ack_s = segment.time_s
            return
        if self._open_s is None:
            self._open_s = segment.time_s
        end = own.offset(segment.seq) + segment.payload
        if segment.ack is not None:
            # At most the data in the capture, which may lack some of the acknowledged data.
            own.acked = max(own.acked, min(other.offset(segment.ack), other.written))
        if segment.payload and end > own.written:
            self._writes.append(_Write(side, segment.time_s, end - own.written, own.acked))
            own.written = end
            own.ends.append(end)
            own.times_s.append(segment.time_s)

    def _round_trip_s(self, side: Side) -> float:
        """Round-trip time from the capture point to an end; 0 without the handshake."""
        if self._syn_s is None or self._syn_ack_s is None or self._open_s is None:
            return 0.0
        spans = {"server": self._syn_ack_s - self._syn_s, "client": self._open_s - self._syn_ack_s}
        return max(0.0, spans[side])

    def _begin_s(self, side: Side, after: int) -> float:
        """Capture time of a write that an end makes at once on receiving the other's first `after` bytes."""
        opened = self._open_s or 0.0
        if after == 0:
            return opened + (self._round_trip_s("server") if side == "server" else 0.0)
        other: Side = "server" if side == "client" else "client"
        return self._ends[other].seen_at(after) + self._round_trip_s(side)

    def script(self) -> Script:
        """Convert it to a script: one block per amount of data that an end waited for."""
        blocks: list[tuple[Side, int, list[tuple[float, int]]]] = []
        latest: dict[Side, tuple[Side, int, list[tuple[float, int]]]] = {}
        for write in self._writes:
            block = latest.get(write.side)
            if block is None or block[1] != write.after:
                block = latest[write.side] = (write.side, write.after, [])
                blocks.append(block)
            at_s = round(max(0.0, write.time_s - self._begin_s(write.side, write.after)), 6)
            writes = block[2]
            if writes and at_s - writes[-1][0] < MERGED_S:
                writes[-1] = (writes[-1][0], writes[-1][1] + write.size)
            else:
                writes.append((at_s, write.size))
        return Script(tuple(Block(side, after, tuple(writes)) for side, after, writes in blocks))

    @property
    def duration_s(self) -> float:
        """Time from its first segment after the handshake's SYNs to its last write."""
        # Captures of several interfaces may be slightly out of order.
        last_s = max((write.time_s for write in self._writes), default=0.0)
        return max(0.0, last_s - (self._open_s or 0.0))


class UdpFlow:
    """A UDP flow in both directions; `add` its datagrams in the order of the capture."""

    def __init__(self, client: End, server: End) -> None:
        """The client is the end that sent first."""
        self.client, self.server = client, server
        self.payload = 0
        self.from_start = True  # datagrams wait for nothing, so their times need no round-trip time
        self._first_s: float | None = None
        self._writes: dict[Side, list[tuple[float, int]]] = {"client": [], "server": []}

    @property
    def name(self) -> str:
        """SRC:PORT-DST:PORT, the client first."""
        return name_of(self.client, self.server)

    def add(self, datagram: Datagram) -> None:
        """Add a datagram; datagrams without payload are ignored."""
        if not datagram.payload:
            return
        if self._first_s is None:
            self._first_s = datagram.time_s
        side: Side = "client" if datagram.source == self.client else "server"
        # Captures of several interfaces may be slightly out of order.
        at_s = round(max(0.0, datagram.time_s - self._first_s), 6)
        self._writes[side].append((at_s, datagram.payload))
        self.payload += datagram.payload

    def script(self) -> Script:
        """Convert it to a UDP script."""
        blocks = [
            Block(side, 0, tuple(sorted(writes, key=itemgetter(0))))
            for side, writes in self._writes.items()
            if writes
        ]
        return Script(tuple(blocks), protocol="udp")

    @property
    def duration_s(self) -> float:
        """Time from its first datagram to its last."""
        return self.script().last_s


def recordings(found: Iterable[Segment | Datagram]) -> list[Recording]:
    """The connections and UDP flows of a capture, by descending payload.

    A SYN on the ports of a connection that carried data begins a new connection.
    """
    connections: dict[frozenset[End], Connection] = {}
    udp_flows: dict[frozenset[End], UdpFlow] = {}
    all_found: list[Connection | UdpFlow] = []
    for one in found:
        key = frozenset((one.source, one.destination))
        if isinstance(one, Datagram):
            udp_flow = udp_flows.get(key)
            if udp_flow is None:
                udp_flow = udp_flows[key] = UdpFlow(one.source, one.destination)
                all_found.append(udp_flow)
            udp_flow.add(one)
            continue
        connection = connections.get(key)
        opens = one.syn and one.ack is None
        if connection is None or (opens and connection.payload):
            connection = connections[key] = _new_connection(one, opens)
            all_found.append(connection)
        connection.add(one)
    return sorted((one for one in all_found if one.payload), key=lambda one: -one.payload)


def _new_connection(segment: Segment, opens: bool) -> Connection:
    ends = segment.source, segment.destination
    if opens:
        return Connection(*ends)
    if segment.syn:
        return Connection(ends[1], ends[0])
    # Without the handshake, assume that the server has the lower port.
    client, server = sorted(ends, key=lambda end: -end[1])
    return Connection(client, server)
