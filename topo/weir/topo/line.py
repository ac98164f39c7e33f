# SPDX-License-Identifier: Apache-2.0
"""A host's line: the frames that it sends leave one after the other, each for as long as its bits take.

Linux has no queueing discipline that does this alone. htb sends a frame as soon as the one before is paid
for, so an empty bucket spaces frames of all sizes, but it sends a packet that is segmented later (GSO) as
one frame. tbf segments such packets, but its bucket holds at least the largest frame, so small frames
leave in bursts. Hence htb at the line's rate, with a leaf of tbf that is ten times as fast and so never
delays a frame. Unlike netem, neither takes packets away from their sockets: TCP Small Queues and
sendmsg(2) see the line's queue. TCP paces as it does without them, because neither is fq.
"""

from __future__ import annotations

from dataclasses import dataclass

LINE_OVERHEAD_BYTES = 24
"""Preamble, frame delimiter, FCS and inter-packet gap (IEEE 802.3); weir-switch counts the same."""
FRAME_BYTES = 1514
_LEAF_TIMES = 10
_LIMIT_BYTES = 64_000_000
"""Sockets' send buffers and TCP Small Queues hold less, so no frame is dropped here."""


@dataclass(frozen=True)
class Line:
    """Bit rate of a host's line, and the time that the host needs for each frame in addition."""

    rate_bps: int
    packet_cost_ns: int = 0

    @property
    def overhead_bytes(self) -> int:
        """Bytes at the line's rate that each frame takes in addition to its own; tc allows 65,535."""
        return LINE_OVERHEAD_BYTES + round(self.packet_cost_ns * self.rate_bps / 8e9)

    def spacing_ns(self, frame_bytes: int) -> float:
        """Least time from the start of such a frame (Ethernet without FCS) to that of the next."""
        return (frame_bytes + self.overhead_bytes) * 8e9 / self.rate_bps

    def commands(self, interface: str) -> str:
        """The lines of a `tc -batch` that give an interface this line."""
        rate, leaf = f"rate {self.rate_bps}bit", f"rate {self.rate_bps * _LEAF_TIMES}bit"
        return (
            f"qdisc add dev {interface} root handle 1: htb default 1\n"
            # A burst of one byte: tc would replace one of 0 by its default.
            f"class add dev {interface} parent 1: classid 1:1 htb {rate} burst 1 cburst 1 "
            f"overhead {self.overhead_bytes} quantum {FRAME_BYTES}\n"
            f"qdisc add dev {interface} parent 1:1 handle 10: tbf {leaf} burst {FRAME_BYTES} "
            f"limit {_LIMIT_BYTES}\n"
        )
