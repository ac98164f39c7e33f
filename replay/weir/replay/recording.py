# SPDX-License-Identifier: Apache-2.0
"""From the segments of one connection to a script: what each end wrote, when, and what it had received.

An end's writes are where its sequence numbers reach beyond all before: retransmissions write nothing new. The
acknowledgment number of such a segment says how much of the other end it had received: that is what the write
waited for. Where the capture was taken does not matter for what is written; when it is written is corrected
by the way from the capture to each end and back, which the handshake shows. Of UDP all that is known is when
the capture saw a datagram.
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
"""Segments that follow each other so closely are one write."""
_WRAP = 1 << 32


@dataclass
class _Direction:
    """One end's stream: how far it has come, and when, as the capture saw it."""

    first: int | None = None
    """Sequence number of its first byte."""
    reached: int = 0
    """Bytes that it has written."""
    ends: list[int] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    """When its bytes up to each of `ends` had been seen."""
    acked: int = 0
    """Bytes of the other end that it had received when it wrote last."""

    def offset(self, number: int) -> int:
        """A sequence number as bytes from the start, near to how far the stream has come."""
        if self.first is None:
            self.first = number
        near = (number - self.first - self.reached) % _WRAP
        return self.reached + (near if near < _WRAP // 2 else near - _WRAP)

    def seen_at(self, count: int) -> float:
        """When its first `count` bytes had been seen."""
        return self.times_s[bisect_left(self.ends, count)]


@dataclass(frozen=True)
class _Write:
    side: Side
    time_s: float
    size: int
    after: int


class Recording(Protocol):
    """What two ends said to each other, as a capture shows it."""

    client: End
    server: End

    @property
    def name(self) -> str:
        """The connection, its client first."""

    @property
    def payload(self) -> int:
        """Bytes of both ends."""

    @property
    def from_start(self) -> bool:
        """Whether all is known that the moments need."""

    @property
    def duration_s(self) -> float:
        """From its beginning to its last write."""

    def script(self) -> Script:
        """The connection as a script."""


class Connection:
    """A TCP connection; `add` its segments in the order of the capture."""

    def __init__(self, client: End, server: End) -> None:
        """The client is who connected, as far as the capture tells."""
        self.client, self.server = client, server
        self._ends: dict[Side, _Direction] = {"client": _Direction(), "server": _Direction()}
        self._writes: list[_Write] = []
        self._syn_s: float | None = None
        self._syn_ack_s: float | None = None
        self._open_s: float | None = None

    @property
    def name(self) -> str:
        """The connection, its client first."""
        return name_of(self.client, self.server)

    @property
    def payload(self) -> int:
        """Bytes of both ends."""
        return sum(end.reached for end in self._ends.values())

    @property
    def from_start(self) -> bool:
        """Whether the capture has its handshake."""
        return self._syn_s is not None and self._syn_ack_s is not None

    def add(self, segment: Segment) -> None:
        """Take in a segment of this connection."""
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
            # No further than the capture has seen: it may lack what was acknowledged.
            own.acked = max(own.acked, min(other.offset(segment.ack), other.reached))
        if segment.payload and end > own.reached:
            self._writes.append(_Write(side, segment.time_s, end - own.reached, own.acked))
            own.reached = end
            own.ends.append(end)
            own.times_s.append(segment.time_s)

    def _round_trip_s(self, side: Side) -> float:
        """From the capture to an end and back; 0 where the handshake does not tell."""
        if self._syn_s is None or self._syn_ack_s is None or self._open_s is None:
            return 0.0
        spans = {"server": self._syn_ack_s - self._syn_s, "client": self._open_s - self._syn_ack_s}
        return max(0.0, spans[side])

    def _begin_s(self, side: Side, after: int) -> float:
        """When, as the capture sees it, an end could have answered so many bytes of the other at once."""
        opened = self._open_s or 0.0
        if after == 0:
            return opened + (self._round_trip_s("server") if side == "server" else 0.0)
        other: Side = "server" if side == "client" else "client"
        return self._ends[other].seen_at(after) + self._round_trip_s(side)

    def script(self) -> Script:
        """The connection as a script."""
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
        """From its beginning to its last write."""
        return self._writes[-1].time_s - (self._open_s or 0.0) if self._writes else 0.0


class Conversation:
    """Datagrams between two ends; `add` them in the order of the capture."""

    def __init__(self, client: End, server: End) -> None:
        """The client is who spoke first."""
        self.client, self.server = client, server
        self.payload = 0
        self.from_start = True  # datagrams wait for nothing, so no way to an end is asked for
        self._first_s: float | None = None
        self._writes: dict[Side, list[tuple[float, int]]] = {"client": [], "server": []}

    @property
    def name(self) -> str:
        """The ends, the client first."""
        return name_of(self.client, self.server)

    def add(self, datagram: Datagram) -> None:
        """Take in a datagram; one without payload is passed over."""
        if not datagram.payload:
            return
        if self._first_s is None:
            self._first_s = datagram.time_s
        side: Side = "client" if datagram.source == self.client else "server"
        # Captures of several interfaces may be out of order by a little.
        at_s = round(max(0.0, datagram.time_s - self._first_s), 6)
        self._writes[side].append((at_s, datagram.payload))
        self.payload += datagram.payload

    def script(self) -> Script:
        """Its datagrams as a script of UDP."""
        blocks = [
            Block(side, 0, tuple(sorted(writes, key=itemgetter(0))))
            for side, writes in self._writes.items()
            if writes
        ]
        return Script(tuple(blocks), protocol="udp")

    @property
    def duration_s(self) -> float:
        """From its first datagram to its last."""
        return self.script().last_s


def recordings(found: Iterable[Segment | Datagram]) -> list[Recording]:
    """Who spoke with whom, those with the most payload first; a new SYN begins a new connection."""
    connections: dict[frozenset[End], Connection] = {}
    conversations: dict[frozenset[End], Conversation] = {}
    whole: list[Connection | Conversation] = []
    for one in found:
        key = frozenset((one.source, one.destination))
        if isinstance(one, Datagram):
            conversation = conversations.get(key)
            if conversation is None:
                conversation = conversations[key] = Conversation(one.source, one.destination)
                whole.append(conversation)
            conversation.add(one)
            continue
        connection = connections.get(key)
        opens = one.syn and one.ack is None
        if connection is None or (opens and connection.payload):
            connection = connections[key] = _new(one, opens)
            whole.append(connection)
        connection.add(one)
    return sorted((one for one in whole if one.payload), key=lambda one: -one.payload)


def _new(segment: Segment, opens: bool) -> Connection:
    ends = segment.source, segment.destination
    if opens:
        return Connection(*ends)
    if segment.syn:
        return Connection(ends[1], ends[0])
    # Without the handshake: servers listen on the lower port.
    client, server = sorted(ends, key=lambda end: -end[1])
    return Connection(client, server)
