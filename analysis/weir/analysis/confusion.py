# SPDX-License-Identifier: Apache-2.0
"""What the end host inferred against what happened to each packet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Bools, Packets


@dataclass(frozen=True)
class FalseInference:
    """One packet on which inference and truth differ."""

    kind: str
    """`false_positive` (inferred lost, but not lost) or `false_negative` (lost, but not inferred)."""
    sent_ns: int
    seq: int
    payload_length: int
    cause: str


@dataclass(frozen=True)
class Confusion:
    """Inference against truth, over the packets whose loss a sender can notice.

    A sender notices the loss of data (or SYN, FIN); it retransmits no pure ACK, so those drops are counted in
    `uninferable_losses` and belong to neither side. Precision and recall are None where nothing was inferred
    or nothing was lost. `detection_delay_s` is the time from a lost transmission to its inference.
    """

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int
    uninferable_losses: int
    detection_delay_median_s: float | None
    detection_delay_p95_s: float | None
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


def compare(packets: Packets, flying: Bools, *, acknowledged: bool = True) -> Confusion:
    """Hold the inference against the truth for one flow, packets in order of sending.

    `acknowledged` is False for protocols whose sender learns of no loss (UDP): nothing is inferable then.

    Lost in truth is what the switch reported dropped and what vanished without a report; what was still in
    flight at the end was not lost.
    """
    lost = packets.dropped | (~packets.received & ~flying)
    # What was judged without payload is a SYN or FIN: it takes a sequence number too. Data counts even where
    # the capture ended before it could be judged.
    inferable = ((packets.payload_length > 0) | packets.judged | packets.inferred_lost) & acknowledged
    inferred = packets.inferred_lost & inferable
    hit = lost & inferred
    delays = (packets.inferred_at_ns - packets.sent_ns)[hit] / 1e9
    return Confusion(
        true_positive=int(hit.sum()),
        false_positive=int((inferred & ~lost).sum()),
        false_negative=int((inferable & lost & ~inferred).sum()),
        true_negative=int((inferable & ~lost & ~inferred).sum()),
        uninferable_losses=int((lost & ~inferable).sum()),
        detection_delay_median_s=float(np.median(delays)) if len(delays) else None,
        detection_delay_p95_s=float(np.percentile(delays, 95)) if len(delays) else None,
        false_inferences=_false_inferences(packets, lost, inferable, inferred),
    )


def _false_inferences(
    packets: Packets, lost: Bools, inferable: Bools, inferred: Bools
) -> tuple[FalseInference, ...]:
    wrong = np.flatnonzero(inferable & (lost != inferred))
    return tuple(
        FalseInference(
            kind="false_positive" if inferred[i] else "false_negative",
            sent_ns=int(packets.sent_ns[i]),
            seq=int(packets.seq[i]),
            payload_length=int(packets.payload_length[i]),
            cause=_cause(packets, int(i), bool(inferred[i])),
        )
        for i in wrong
    )


def _cause(packets: Packets, i: int, was_inferred: bool) -> str:
    if was_inferred:
        rule = packets.cause[i] or "unknown rule"
        return f"arrived, but retransmitted and not recognised as spurious ({rule})"
    # Sequence numbers wrap: compare by the distance modulo 2^32 (RFC 9293 §3.4).
    distance = (packets.seq[i + 1 :] - packets.seq[i]) % (1 << 32)
    again = distance < max(1, int(packets.payload_length[i]))
    if not again.any():
        return "not retransmitted before the capture ended"
    if packets.retransmission[i]:
        return "a retransmission that was lost too, sent again but not recognised"
    return "retransmitted, but the loss was attributed to no or to another transmission"
