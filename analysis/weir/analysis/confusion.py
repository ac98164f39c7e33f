# SPDX-License-Identifier: Apache-2.0
"""Compares the losses that the end host inferred with what happened to each packet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.clocks import ClockFit
from weir.analysis.tables import Bools, Floats, Packets
from weir.analysis.traces import continued

FAST_RETRANSMIT, RTO, LOST_RETRANSMISSION, TAIL = CAUSES = (
    "fast_retransmit",
    "rto",
    "lost_retransmission",
    "tail",
)
"""Causes of retransmission, by `weir_core`'s names."""

TICK_NS = 1_000_000
"""Resolution of Linux' TCP timestamps. A receiver discards a segment whose timestamp is older than that of
the last one in order (PAWS, RFC 7323 section 5.3); to the sender it looks lost."""


@dataclass(frozen=True)
class FalseInference:
    """One packet where inference and truth differ."""

    kind: str
    """`false_positive` (inferred lost, but not lost) or `false_negative` (lost, but not inferred)."""
    sent_ns: int
    seq: int
    payload_length: int
    cause: str


@dataclass(frozen=True)
class CauseConfusion:
    """The confusion of one cause of retransmission.

    A missed loss has no inferred cause, so the truth gives its row: a lost retransmission has that row, data
    that was never sent again the row `tail`, any other loss the row None.
    """

    cause: str | None
    true_positive: int
    false_positive: int
    false_negative: int
    detection_delay_median_s: float | None
    time_error_median_s: float | None
    time_error_p95_s: float | None

    @property
    def precision(self) -> float | None:
        """Share of the losses inferred with this cause that were losses."""
        inferred = self.true_positive + self.false_positive
        return self.true_positive / inferred if inferred else None

    @property
    def recall(self) -> float | None:
        """Share of the losses of this cause that were inferred."""
        lost = self.true_positive + self.false_negative
        return self.true_positive / lost if lost else None


@dataclass(frozen=True)
class Confusion:
    """Inference against truth, over the packets whose loss a sender can notice: those with data, SYN or FIN.

    Pure ACKs are never retransmitted, so their drops are counted in `uninferable_losses` only. Precision is
    None where nothing was inferred, recall where nothing was lost. `detection_delay_s` is the time from a
    lost transmission to its inference. `time_error_s` is the distance between the inferred time of a loss
    (its time of sending, on the switch's clock) and the time of the drop at the switch; None without aligned
    clocks.
    """

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int
    uninferable_losses: int
    detection_delay_median_s: float | None
    detection_delay_p95_s: float | None
    time_error_median_s: float | None
    time_error_p95_s: float | None
    causes: tuple[CauseConfusion, ...]
    false_inferences: tuple[FalseInference, ...]

    @property
    def inferred_lost(self) -> int:
        """Packets inferred lost."""
        return self.true_positive + self.false_positive

    @property
    def precision(self) -> float | None:
        """Share of the inferred losses that were losses."""
        return self.true_positive / self.inferred_lost if self.inferred_lost else None

    @property
    def recall(self) -> float | None:
        """Share of the (inferable) losses that were inferred."""
        lost = self.true_positive + self.false_negative
        return self.true_positive / lost if lost else None


def compare(
    packets: Packets, flying: Bools, *, acknowledged: bool = True, clock: ClockFit | None = None
) -> Confusion:
    """Compare inference and truth for one flow, packets in order of sending.

    `acknowledged` is False for protocols without acknowledgments (UDP), where no loss is inferable. `clock`
    converts the sender's times to the switch's clock. Truly lost are packets that were reported dropped, and
    packets that never arrived; those marked in `flying` were still in flight and are not lost.
    """
    lost = packets.dropped | (~packets.received & ~flying)
    # A packet that was judged without payload is a SYN or FIN, which takes a sequence number too. Data counts
    # even where the capture ended before it could be judged.
    inferable = ((packets.payload_length > 0) | packets.judged | packets.inferred_lost) & acknowledged
    inferred = packets.inferred_lost & inferable
    hit, wrong, missed = lost & inferred, inferred & ~lost, inferable & lost & ~inferred
    delays = np.where(hit, (packets.inferred_at_ns - packets.sent_ns) / 1e9, np.nan)
    errors = _time_errors(packets, hit, clock)
    again, overtaken = _sent_again(packets, missed, inferable), _overtaken(packets)
    return Confusion(
        true_positive=int(hit.sum()),
        false_positive=int(wrong.sum()),
        false_negative=int(missed.sum()),
        true_negative=int((inferable & ~lost & ~inferred).sum()),
        uninferable_losses=int((lost & ~inferable).sum()),
        detection_delay_median_s=_quantile(delays, 0.5),
        detection_delay_p95_s=_quantile(delays, 0.95),
        time_error_median_s=_quantile(errors, 0.5),
        time_error_p95_s=_quantile(errors, 0.95),
        causes=_by_cause(packets, hit, wrong, missed, again, delays, errors),
        false_inferences=tuple(
            _false_inference(packets, int(i), again, overtaken) for i in np.flatnonzero(wrong | missed)
        ),
    )


def _quantile(values: Floats, share: float) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.quantile(known, share)) if len(known) else None


def _time_errors(packets: Packets, hit: Bools, clock: ClockFit | None) -> Floats:
    """Seconds, for packets both reported dropped and inferred lost; NaN for others.

    Uses the fit without its anchors: the anchors are these drops, so their error would always be 0.
    """
    errors = np.full(len(packets), np.nan)
    known = hit & packets.dropped & (packets.ingress_ns > 0)
    if clock is not None and known.any():
        errors[known] = np.abs(clock.to_target(packets.sent_ns[known]) - packets.ingress_ns[known]) / 1e9
    return errors


def _sent_again(packets: Packets, which: Bools, numbered: Bools) -> Bools:
    """Mark the packets in `which` of which a byte was sent again, maybe cut otherwise.

    Only packets in `numbered`, which has all of `which`, take sequence numbers; SYN and FIN take one. The
    time is that of a sort, however many are marked.
    """
    again = np.zeros(len(packets), dtype=bool)
    if not which.any():
        return again
    at = np.flatnonzero(numbered)
    start = continued(packets)[at]
    end = start + np.maximum(packets.payload_length[at], 1)
    # No packet begins or ends between two neighbours of `edges`, so the last one that has a byte has all.
    edges = np.unique(np.concatenate([start, end]))
    first, behind = np.searchsorted(edges, start), np.searchsorted(edges, end)
    parts = behind - first
    of_packet = np.repeat(np.arange(len(at)), parts)
    part = np.arange(len(of_packet)) - np.repeat(np.cumsum(parts) - parts - first, parts)
    last = np.zeros(len(edges), dtype=np.int64)
    np.maximum.at(last, part, of_packet)
    newer = last[part] > of_packet
    again[at[of_packet[newer]]] = True
    return np.asarray(again & which)


def _by_cause(
    packets: Packets, hit: Bools, wrong: Bools, missed: Bools, again: Bools, delays: Floats, errors: Floats
) -> tuple[CauseConfusion, ...]:
    missed_retransmission = missed & packets.retransmission
    missed_tail = missed & ~packets.retransmission & ~again
    rows = []
    for cause in (*CAUSES, None):
        its = packets.cause == cause
        unseen = {LOST_RETRANSMISSION: missed_retransmission, TAIL: missed_tail}.get(
            cause or "", np.zeros(len(packets), dtype=bool)
        )
        if cause is None:
            unseen = missed & ~missed_retransmission & ~missed_tail
        if (its & (hit | wrong)).any() or unseen.any():
            rows.append(
                CauseConfusion(
                    cause=cause,
                    true_positive=int((its & hit).sum()),
                    false_positive=int((its & wrong).sum()),
                    false_negative=int(unseen.sum()),
                    detection_delay_median_s=_quantile(delays[its], 0.5),
                    time_error_median_s=_quantile(errors[its], 0.5),
                    time_error_p95_s=_quantile(errors[its], 0.95),
                )
            )
    return tuple(rows)


def _false_inference(packets: Packets, i: int, again: Bools, overtaken: Bools) -> FalseInference:
    was_inferred = bool(packets.inferred_lost[i])
    return FalseInference(
        kind="false_positive" if was_inferred else "false_negative",
        sent_ns=int(packets.sent_ns[i]),
        seq=int(packets.seq[i]),
        payload_length=int(packets.payload_length[i]),
        cause=_why(packets, i, was_inferred, bool(again[i]), bool(overtaken[i])),
    )


def _overtaken(packets: Packets) -> Bools:
    """Mark the packets that arrived behind one that was sent a tick later."""
    never = np.iinfo(np.int64).max
    arrived_ns = np.append(np.where(packets.received, packets.received_ns, never), never)
    earliest_ns = np.minimum.accumulate(arrived_ns[::-1])[::-1]  # of this packet and all sent after it
    later = np.searchsorted(packets.sent_ns, packets.sent_ns + TICK_NS)
    return np.asarray(packets.received & (earliest_ns[later] < packets.received_ns))


def _why(packets: Packets, i: int, was_inferred: bool, again: bool, overtaken: bool) -> str:
    if was_inferred:
        if overtaken:
            return "arrived behind packets of a later tick, which made it too old for its receiver (PAWS)"
        rule = packets.cause[i] or "unknown rule"
        return f"arrived, but retransmitted and not recognised as spurious ({rule})"
    if not again:
        return "not retransmitted before the capture ended"
    if packets.retransmission[i]:
        return "a retransmission that was lost too, sent again but not recognised"
    return "retransmitted, but the loss was attributed to no or to another transmission"
