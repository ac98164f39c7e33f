# SPDX-License-Identifier: Apache-2.0
"""A capture's packets as one trace per flow: time and length of each packet, which were lost, and RTTs.

A capture before the policer (at the sender, or on the path) contains the lost packets; the Rust core infers
which they are. A capture after the policer (at the receiver) contains holes in the sequence numbers instead,
which are filled later. A capture that another path than the data's passed contains only ACKs, which show such
holes too (`acknowledged.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from weir.analysis.tables import (
    TCP,
    Bools,
    Floats,
    FlowKey,
    FlowRow,
    Ints,
    Packets,
    RttSamples,
)

REORDERING_PACKETS, REORDERING_RTTS = 3, 0.5
"""A hole filled within this many packets (RFC 5681: three duplicate ACKs) and so soon is reordering: nothing
is sent again before the sender knows of the hole, which takes an RTT."""
View = Literal["sent", "received", "acked"]
CLOSE_PERCENT = 25
"""Of the gaps between packets. Senders pace two or more at a time, and the later ones are dropped."""


def flow_name(src: str, dst: str, src_port: int, dst_port: int) -> str:
    """A directed flow as options and results name it."""
    return f"{src}:{src_port}-{dst}:{dst_port}"


@dataclass(frozen=True)
class FlowTrace:
    """A directed TCP flow at one point of its path: its packets in order of time, arrays of one length.

    `frame_bytes` is the Ethernet frame without FCS. `seq` counts from the flow's first data byte; the numbers
    of a later connection on the same ports continue those of the one before. In the view `received` lost
    packets were not captured; each is inserted behind the last packet before its hole. The view `acked` is
    the same from ACKs alone. `rtt_sent_ns` and `rtt_ns`: RTT samples by the time of sending; only in the view
    `sent`. `request_ns`: times of data in the other direction. `from_start`: the capture contains the flow's
    SYN; `handshake_ns`: from its SYN to what its sender sent next, an RTT at any point of the path, or the
    same of the other direction if that is shorter.
    `unfilled`: holes that were never filled, as the capture missed the packets or ended; `complete`: the
    share of the flow's payload that it did not miss. `time_error_ns`: of a single time in the view `acked`.
    `delivery_rates_bps`: payload, a sample per ACK; empty after the losses.
    """

    src: str
    dst: str
    src_port: int
    dst_port: int
    time_ns: Ints
    frame_bytes: Ints
    payload_bytes: Ints
    seq: Ints
    lost: Bools
    rtt_sent_ns: Ints
    rtt_ns: Ints
    request_ns: Ints
    from_start: bool
    view: View = "sent"
    unfilled: int = 0
    complete: float = 1.0
    handshake_ns: int | None = None
    time_error_ns: int = 0
    delivery_rates_bps: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def name(self) -> str:
        """The flow as the option ``--flow`` takes it."""
        return flow_name(self.src, self.dst, self.src_port, self.dst_port)

    @property
    def key(self) -> FlowKey:
        """The directed 5-tuple."""
        return (self.src, self.dst, self.src_port, self.dst_port, TCP)

    @property
    def losses(self) -> int:
        """The number of lost packets."""
        return int(np.count_nonzero(self.lost))


NONE: Ints = np.empty(0, dtype=np.int64)


def as_sent(row: FlowRow, packets: Packets, rtts: RttSamples, request_ns: Ints = NONE) -> FlowTrace:
    """The trace of a flow from its sender's capture, with the losses inferred there.

    `packets` (at least one with data) are in order of time, `rtts` are this flow's samples by the time of the
    ACK.
    """
    seq = continued(packets)
    # A SYN that carries data (RFC 7413) has no handshake before it.
    from_start = bool(packets.syn[0] and packets.payload_length[0] == 0)
    first_byte = seq[0] + 1 if from_start else seq[np.argmax(packets.payload_length > 0)]
    return FlowTrace(
        src=row.src,
        dst=row.dst,
        src_port=row.src_port,
        dst_port=row.dst_port,
        time_ns=packets.sent_ns,
        frame_bytes=packets.wire_length,
        payload_bytes=packets.payload_length,
        seq=seq - first_byte,
        lost=packets.inferred_lost,
        rtt_sent_ns=rtts.time_ns - rtts.rtt_ns,
        rtt_ns=rtts.rtt_ns,
        request_ns=request_ns,
        from_start=from_start,
        handshake_ns=handshake_of(packets.sent_ns, seq) if from_start else None,
    )


def handshake_of(time_ns: Ints, seq: Ints) -> int | None:
    """From a host's last SYN to its next segment, which answers the other end's, ns.

    `time_ns` and `seq` (unwrapped) are those of one direction from the SYN on; None for a nonsensical time.
    """
    answer = int(np.argmax(seq > seq[0]))
    took_ns = int(time_ns[answer] - time_ns[answer - 1])
    return took_ns if took_ns > 0 else None


def unwrapped(seq: Ints) -> Ints:
    """32-bit sequence numbers as 64-bit ones that do not wrap; neighbours are less than 2³¹ apart."""
    steps = np.diff(seq, prepend=seq[:1])
    return np.asarray(seq[0] + np.cumsum((steps + 2**31) % 2**32 - 2**31), dtype=np.int64)


def continued(packets: Packets) -> Ints:
    """The sequence numbers of a flow, unwrapped; a later connection's first byte follows the last one before.

    A connection begins with a SYN of another number than the SYN before. Its own numbers begin anywhere:
    higher ones would look like data that the capture missed, lower ones like data that was sent again.
    """
    syns = np.flatnonzero(packets.syn)
    another = np.diff(packets.seq[syns], prepend=-1) != 0
    starts = np.unique(np.append(syns[another], 0))
    parts: list[Ints] = []
    reached = int(packets.seq[0]) + int(packets.syn[0])
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(packets)], strict=True):
        seq = unwrapped(packets.seq[start:end])
        if start:
            seq = seq - seq[0] + reached - 1  # a SYN takes a number, too
        payload = packets.payload_length[start:end]
        reached = int((seq + payload)[payload > 0].max(initial=reached))
        parts.append(seq)
    return np.concatenate(parts)


def as_received(flow: FlowTrace) -> FlowTrace:
    """The trace of a flow captured after its losses: a hole filled later was a loss, where it opened.

    The lost packets follow the last one before the hole as closely as packets often do, closer where the hole
    is shorter: a policer drops at the end of a burst, when the bucket is empty.

    A hole filled within `REORDERING_PACKETS` packets, and within half an RTT where the capture has the
    handshake, is reordering. A lost retransmission leaves no hole and is not counted. Without the flow's SYN
    neither is a packet from before the first one captured: its hole opened earlier, when is not known.
    """
    data = np.flatnonzero(flow.payload_bytes > 0)
    seq, end = flow.seq[data], flow.seq[data] + flow.payload_bytes[data]
    reached = np.maximum.accumulate(end)
    first = min(0, int(seq[0])) if flow.from_start else int(seq[0])
    before = np.concatenate([[first], reached[:-1]])
    first_seen = np.zeros(len(data), dtype=bool)
    first_seen[np.unique(seq, return_index=True)[1]] = True
    # Data within the first segment was no hole, even if it comes again cut otherwise.
    in_a_hole = (seq >= end[0]) | ((seq >= first) & (seq < seq[0]))
    fills = np.flatnonzero(in_a_hole & (seq < before) & first_seen)
    opened = np.searchsorted(reached, seq[fills], side="right")  # the packet that opened the hole
    jumped = np.maximum(seq - before, 0)
    missed_bytes = max(int(jumped.sum()) - int(flow.payload_bytes[data[fills]].sum()), 0)
    unfilled = int(np.count_nonzero(jumped)) - len(np.unique(opened)) if missed_bytes else 0
    late = fills - opened > REORDERING_PACKETS
    if flow.handshake_ns is not None:
        took_ns = flow.time_ns[data[fills]] - flow.time_ns[data[opened]]
        late |= took_ns >= REORDERING_RTTS * flow.handshake_ns
    fills, opened = fills[late], opened[late]
    in_sequence = np.lexsort((seq[fills], opened))
    fills, opened = fills[in_sequence], opened[in_sequence]
    order = np.argsort(
        np.concatenate([np.arange(len(flow.time_ns)) + 0.5, data[opened].astype(np.float64)]), kind="stable"
    )

    def merged(seen: Ints, missing: Ints) -> Ints:
        return np.concatenate([seen, missing])[order]

    start_ns = int(flow.time_ns[max(data[0] - 1, 0)])
    lost = np.concatenate([np.zeros(len(flow.time_ns), dtype=bool), np.ones(len(fills), dtype=bool)])[order]
    return replace(
        flow,
        time_ns=merged(flow.time_ns, _lost_ns(flow.time_ns[data], opened, start_ns)),
        frame_bytes=merged(flow.frame_bytes, flow.frame_bytes[data[fills]]),
        payload_bytes=merged(flow.payload_bytes, flow.payload_bytes[data[fills]]),
        seq=merged(flow.seq, seq[fills]),
        lost=lost,
        rtt_sent_ns=NONE,  # from there to the receiver, not over the path
        rtt_ns=NONE,
        view="received",
        unfilled=max(unfilled, 0),
        complete=1 - missed_bytes / max(int(reached[-1]) - first, 1),
        delivery_rates_bps=np.empty(0),
    )


def _lost_ns(arrived_ns: Ints, opened: Ints, start_ns: int) -> Ints:
    """When lost packets would have arrived; `opened` are the arrivals that showed their holes, ascending.

    Those before the first arrival were sent with it, after `start_ns`: a server may wait before it sends.
    """
    _, group, missing = np.unique(opened, return_inverse=True, return_counts=True)
    place = np.arange(1, len(opened) + 1) - (np.cumsum(missing) - missing)[group]
    spacing_ns = gap_ns(arrived_ns, CLOSE_PERCENT)
    leading = np.count_nonzero(opened == 0)
    first_ns = max(start_ns, int(arrived_ns[0]) - (leading + 1) * spacing_ns)
    last_ns = np.concatenate([[first_ns], arrived_ns[:-1]])[opened]
    within_ns = (arrived_ns[opened] - last_ns) / (missing[group] + 1)
    return np.asarray(last_ns + np.rint(place * np.minimum(within_ns, spacing_ns)).astype(np.int64))


def gap_ns(arrived_ns: Ints, percent: float) -> int:
    """This percentile of the gaps between packets; 0 without any."""
    return int(np.percentile(np.diff(arrived_ns), percent)) if len(arrived_ns) > 1 else 0
