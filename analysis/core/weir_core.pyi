# SPDX-License-Identifier: Apache-2.0
"""From packet captures to loss events, and drop reports joined to the packets they are about."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__version__: str

class CaptureError(ValueError):
    """A file that cannot be read as what it should be: where, what was found, what would be valid."""

    path: str
    offset: int | None
    problem: str
    valid: str

class Losses:
    """The result of one capture."""

    @property
    def flows(self) -> pa.Table:
        """One row per directed flow: flow u32, src, dst utf8, src_port, dst_port u16, protocol u8,
        packets, bytes, payload_bytes u64, first_ns, last_ns i64, min_rtt_ns i64?, retransmissions,
        spurious, losses u64, the losses by cause (fast_retransmit, rto, lost_retransmission, tail u64),
        losses_before u64: lost before the capture, not among losses; overtaken u64: reached the capture late;
        copies u64: data packets that are in it twice; missed_bytes u64: acknowledged but not in it;
        cut_acknowledgments u64: ACKs whose options the snap length has cut.
        """
    @property
    def losses(self) -> pa.Table:
        """One row per lost transmission, by time sent: flow u32, sent_ns, detected_ns i64, seq, length
        u32, cause utf8 (fast_retransmit, rto, lost_retransmission, tail), place utf8 (behind the capture,
        or before), confidence utf8 (low, medium, high; docs/losses.md).
        """
    @property
    def rtts(self) -> pa.Table:
        """One row per round-trip time: flow u32, time_ns, rtt_ns i64."""
    @property
    def delivery_rates(self) -> pa.Table:
        """One row per ACK that delivers data: flow u32, time_ns i64, delivered_bytes u64, interval_ns i64,
        rate_bps f64 (payload), retransmission bool: the youngest segment acknowledged is a retransmission
        (docs/losses.md).
        """
    @property
    def records(self) -> int:
        """Records in the file."""
    @property
    def not_ip(self) -> int:
        """Records that are not IP packets."""
    @property
    def truncated(self) -> bool:
        """Whether the file ends inside a record."""
    @property
    def warnings(self) -> list[str]:
        """What the reader should know about the file."""

class LossStream:
    """The losses of a capture as it is read: tables with the columns of `Losses.losses`, as they are certain.

    A table has about 65,536 rows, the last one the rest; flows and counts are those so far.
    """

    def __iter__(self) -> LossStream: ...
    def __next__(self) -> pa.Table: ...
    @property
    def flows(self) -> pa.Table:
        """As `Losses.flows`."""
    def drain(self) -> None:
        """Read to the end without losses, for the counts alone."""
    def largest(self, number: int) -> list[dict[str, Any]]:
        """The rows of `flows` that carried most payload, the largest first; none without payload."""
    def totals(self) -> dict[str, int]:
        """Sums over all flows: flows, flows_with_data, packets, retransmissions, spurious, losses, the losses
        by cause, losses_before, missed_bytes, cut_acknowledgments.
        """
    @property
    def records(self) -> int:
        """Records read."""
    @property
    def not_ip(self) -> int:
        """Records that are not IP packets."""
    @property
    def warnings(self) -> list[str]:
        """What the reader should know about the file."""

class SegmentStream:
    """The TCP segments and UDP datagrams of a capture in the order of the file: tables of about 65,536 rows.

    Columns: time_ns i64, src, dst binary (4 or 16 bytes, network order), src_port, dst_port u16, protocol u8
    (6 TCP, 17 UDP), seq u32? (null for UDP), ack u32? (null without ACK flag), syn bool, tsval and tsecr
    u32? (null without the timestamps option, or where the capture cut it off), payload_bytes u32 (as sent,
    regardless of the snap length). A fragmented packet is represented by its first fragment: a UDP
    datagram with the payload of all fragments, a TCP segment with that of the first. Packets with malformed
    headers and records without a time are skipped.
    """

    def __iter__(self) -> SegmentStream: ...
    def __next__(self) -> pa.Table: ...
    @property
    def warnings(self) -> list[str]:
        """Sentences about the capture, once it is read to its end: that it ends inside a record (and what
        came before is used), and packets that it lost by its own statistics."""

class Joined:
    """The captures of a run joined with its drop reports."""

    @property
    def flows(self) -> pa.Table:
        """One row per directed flow: flow u32, src, dst utf8, src_port, dst_port u16, protocol u8, sent,
        received, reported_drops, in_flight_candidates, sent_bytes, received_payload_bytes u64, first_ns,
        last_ns, min_rtt_ns i64?, mean_rtt_ns f64?, retransmissions, spurious u64.
        """
    @property
    def packets(self) -> pa.Table:
        """One row per IP packet sent: flow u32, sent_ns i64, wire_length u32, seq u32?, payload_length
        u32, syn, retransmission, copy, judged, inferred_lost bool, cause, confidence utf8?, inferred_at_ns,
        received_ns i64?, sent_record u64, received_record u64?, passed_ns u64?, dropped bool, policer u16?,
        colour u8?, packet_number u32?, ingress_ns u64?.

        ``copy``: the capture has an earlier packet a second time, and this is the second one. ``judged`` is
        false where the sender's capture cannot tell: pure ACKs, other protocols, data still in flight at the
        end. The records are numbers of the packet in the two captures; ``passed_ns`` is when it came into the
        switch, by the report of a packet that was not dropped.
        """
    @property
    def rtts(self) -> pa.Table:
        """One row per round-trip time: flow u32, time_ns, rtt_ns i64."""
    @property
    def delivery_rates(self) -> pa.Table:
        """As `Losses.delivery_rates`."""
    @property
    def records(self) -> list[int]:
        """Records of each capture, in the order given."""
    @property
    def unmatched(self) -> dict[str, int]:
        """Counts without a match (reports, received), of contradictions (received_and_dropped) and of frames
        left out (reports_not_ip, not_ip, foreign).
        """
    @property
    def warnings(self) -> list[str]:
        """Warnings about the files, one sentence each."""

def read_losses(path: str | os.PathLike[str]) -> Losses:
    """Read one capture taken at the sender and infer which transmissions were lost.

    Raises CaptureError when the file is not a capture or is damaged.
    """

def stream_losses(path: str | os.PathLike[str]) -> LossStream:
    """Read one capture taken at the sender in steps, in memory that does not grow with the file.

    Raises CaptureError as `read_losses`, also from the iterator.
    """

def read_acknowledged(path: str | os.PathLike[str]) -> pa.Table:
    """Read which bytes of which flow each ACK of a capture is the first to acknowledge, in order of the file.

    Columns: time_ns i64 (of the ACK), src, dst binary (4 or 16 bytes, network order), src_port, dst_port u16
    (of the flow of the data), seq u32, length u32. What a flow's first ACK covers is not in it. The numbers
    of a later connection on the same ports, which begins with its receiver's SYN, continue those before. A
    file that ends inside a record is read up to it.

    Raises CaptureError when the file is not a capture or is damaged.
    """

def stream_segments(path: str | os.PathLike[str], *, may_be_cut: bool = False) -> SegmentStream:
    """Read the TCP segments and UDP datagrams of a capture, in memory that does not grow with the file.

    Raises CaptureError when the file is not a capture; from the iterator, when it is damaged or ends inside a
    record. `may_be_cut`: a file that ends inside a record ends before it.
    """

def join_run(
    captures: Sequence[tuple[str | os.PathLike[str], Sequence[str]]],
    reports: tuple[str | os.PathLike[str], pa.RecordBatchReader] | None = None,
    clocks: Sequence[Sequence[tuple[int, int, int, float]]] | None = None,
) -> Joined:
    """Join the captures of several hosts (path, addresses of that host; none: all addresses) with the
    drop reports of a telemetry.parquet, if given: its path, for messages, and its rows with the columns
    that `weir.analysis.reports` reads. `clocks`, one for each capture, moves its times to another clock:
    pieces of first record, a time, the other clock's time at that moment, and how much faster that runs.

    Raises CaptureError when a file is not what it should be, ValueError for text that is not an IP address,
    and for clocks that are not one for each capture.
    """

class TokenBucket:
    """A token bucket whose level nobody sees, with traffic that was not captured (src/bucket.rs).

    In four steps of time it gets a frame's tokens. The load of the other traffic lasts `steps_of_load` steps
    on average; a packet arrives any number of steps up to `jitter_steps` later than it is said to.
    """

    def __init__(self, steps_of_load: float, jitter_steps: int) -> None: ...
    def drop_probabilities(self, steps: NDArray[np.int64], lost: NDArray[np.uint8]) -> list[float]:
        """The probability of each packet to be dropped, given the fates of those before it.

        `steps`: when each arrives, ascending. `lost`: 0 if it passed. Neither 0 nor 1 is a result.

        Raises ValueError if there are not as many of both, or if `steps` descend.
        """
