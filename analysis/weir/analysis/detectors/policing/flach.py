# SPDX-License-Identifier: Apache-2.0
"""The policing detector of Flach et al., as published.

T. Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016, section 3.1, with the
constants of the authors' published detector. A flow is cut into chunks (the data that one side sends until
the other sends data again). A chunk is policed when, with the goodput between its first and last loss as
rate,

1. there are 15 losses and 15 other packets, and losses in 3 different round trips;
2. the first loss comes within 2 MB; at that rate the bucket is not below −0.75 RTT × rate at the chunk's
   start;
3. from an empty bucket at the first loss on, mean and median of the tokens are higher where packets pass than
   where they are lost;
4. tokens at 90 % of the losses are within 2 median RTTs × rate of their median;
5. tokens at 97 % of passing packets are not below that median by more than 0.75 median RTTs × rate;
6. at most 20 % of the losses follow an RTT that is inflated: at least the median, 1.3 × the tenth
   percentile and 20 ms.

Rate and burst count payload: the goodput, and what was sent before the first loss. Choices that the texts
leave open: percentiles are over the chunk's samples up to the loss; RTT samples are those of Karn's rule;
for the flow as a whole, the verdict is `policed` when most of the chunks with enough losses are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from weir.analysis.detectors.policing.verdict import MIN_LOSSES, FlowVerdict
from weir.analysis.tables import Bools
from weir.analysis.traces import FlowTrace

MIN_ROUNDS = 3
LATE_LOSS_BYTES = 2_000_000
LOSS_RTTS, PASS_RTTS = 2.0, 0.75
LOSS_OUTSIDE, PASS_OUTSIDE = 0.10, 0.03
INFLATED_PERCENTILE, INFLATED_FACTOR, INFLATED_NS, INFLATED_SHARE = 10, 1.3, 20e6, 0.2


@dataclass(frozen=True)
class Chunk:
    """The detector's result for one chunk; `against` is the first rule that excludes policing, or None."""

    losses: int
    against: str | None
    rate_bps: float | None = None
    burst_bytes: float | None = None

    @property
    def decided(self) -> bool:
        """Whether the chunk had enough losses for a verdict."""
        return self.against not in (FEW, FEW_ROUNDS)


FEW = f"fewer than {MIN_LOSSES} losses or other packets"
FEW_ROUNDS = f"losses in fewer than {MIN_ROUNDS} round trips"
LATE = "the first loss came late"
NEGATIVE = "the bucket would have been empty at the start"
HIGHER_ON_LOSS = "no more tokens for packets that passed than for lost ones"
LOSS_RANGE = "tokens at losses are spread"
PASS_RANGE = "packets passed without tokens"
INFLATED_RTT = "RTTs were inflated before losses"


def judge_chunk(flow: FlowTrace, which: Bools) -> Chunk:
    """Apply the rules to the data packets that `which` marks."""
    data = np.flatnonzero(which & (flow.payload_bytes > 0))
    time_ns, size, lost = flow.time_ns[data], flow.payload_bytes[data], flow.lost[data]
    losses = np.flatnonzero(lost)
    samples = (flow.rtt_sent_ns >= time_ns[0]) & (flow.rtt_sent_ns <= time_ns[-1]) if len(data) else []
    rtt_at, rtt = flow.rtt_sent_ns[samples], flow.rtt_ns[samples]
    if len(losses) < MIN_LOSSES or len(rtt) < 2 or np.count_nonzero(~lost[losses[0] :]) < MIN_LOSSES:
        return Chunk(len(losses), FEW)
    first, last = int(losses[0]), int(losses[-1])
    median_rtt_ns = float(np.median(rtt))
    if _rounds(time_ns[losses], median_rtt_ns) < MIN_ROUNDS:
        return Chunk(len(losses), FEW_ROUNDS)
    start = int(flow.seq[data[0]])
    if flow.seq[data[first]] - start > LATE_LOSS_BYTES:
        return Chunk(len(losses), LATE)
    passed = np.where(lost, 0, size)
    span_ns = float(time_ns[last] - time_ns[first])
    rate = float(passed[first:last].sum()) / span_ns if span_ns > 0 else 0.0  # bytes per ns
    loss_zero, pass_zero = LOSS_RTTS * median_rtt_ns * rate, PASS_RTTS * median_rtt_ns * rate
    if flow.seq[data[first]] - start - rate * float(time_ns[first] - time_ns[0]) < -pass_zero:
        return Chunk(len(losses), NEGATIVE)
    after = slice(first, None)
    used = np.cumsum(passed[after]) - passed[after]
    tokens = rate * (time_ns[after] - time_ns[first]) - used
    on_loss, on_pass = tokens[lost[after]], tokens[~lost[after]]
    middle = float(np.median(on_loss))
    if on_loss.mean() >= on_pass.mean() or middle >= np.median(on_pass):
        return Chunk(len(losses), HIGHER_ON_LOSS)
    if np.count_nonzero(np.abs(on_loss - middle) > loss_zero) > LOSS_OUTSIDE * len(on_loss):
        return Chunk(len(losses), LOSS_RANGE)
    if np.count_nonzero(on_pass - middle < -pass_zero) > PASS_OUTSIDE * len(on_pass):
        return Chunk(len(losses), PASS_RANGE)
    order = np.argsort(rtt_at, kind="stable")
    inflated = _inflated(rtt[order].astype(np.float64), np.searchsorted(rtt_at[order], time_ns[losses]))
    if inflated > INFLATED_SHARE * len(losses):
        return Chunk(len(losses), INFLATED_RTT)
    return Chunk(len(losses), None, rate * 8e9, float(size[:first].sum()))


def _rounds(times_ns: np.ndarray[tuple[int], np.dtype[np.int64]], rtt_ns: float) -> int:
    rounds, end = 1, float(times_ns[0]) + rtt_ns
    for at in times_ns.tolist():
        if at > end:
            rounds, end = rounds + 1, at + rtt_ns
    return rounds


def _inflated(
    rtt: np.ndarray[tuple[int], np.dtype[np.float64]], known: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> int:
    """Count the losses before which the second-last RTT was inflated; `known`: samples before each loss."""
    count = 0
    for samples in known.tolist():
        if samples < 2:
            continue
        latest, so_far = rtt[samples - 2], rtt[:samples]
        low = np.percentile(so_far, INFLATED_PERCENTILE)
        count += bool(
            latest >= INFLATED_NS and latest > INFLATED_FACTOR * low and latest >= np.median(so_far)
        )
    return count


def detect_policing_flach(flows: Sequence[FlowTrace]) -> list[FlowVerdict]:
    """Judge each flow by its chunks; see the module's text."""
    return [_judge(flow) for flow in flows]


def chunks_of(flow: FlowTrace) -> list[Chunk]:
    """The verdict on each chunk of a flow."""
    number = np.searchsorted(flow.request_ns, flow.time_ns)
    return [judge_chunk(flow, number == n) for n in np.unique(number[flow.payload_bytes > 0])]


def _judge(flow: FlowTrace) -> FlowVerdict:
    chunks = chunks_of(flow)
    decided = [chunk for chunk in chunks if chunk.decided]
    policed = [chunk for chunk in decided if chunk.against is None]
    detail: dict[str, object] = {
        "losses": flow.losses,
        "packets": len(flow.time_ns),
        "chunks": [asdict(chunk) for chunk in chunks],
    }
    if not decided:
        reason = f"none of {len(chunks)} chunks has {MIN_LOSSES} losses in {MIN_ROUNDS} round trips"
        return FlowVerdict(flow.name, "insufficient_loss", reason, detail=detail)
    if 2 * len(policed) > len(decided):
        rates = [chunk.rate_bps for chunk in policed if chunk.rate_bps is not None]
        bursts = [chunk.burst_bytes for chunk in policed if chunk.burst_bytes is not None]
        reason = f"{len(policed)} of {len(decided)} chunks with enough losses look policed"
        rate, burst = float(np.median(rates)), float(np.median(bursts))
        return FlowVerdict(flow.name, "policed", reason, rate, burst, detail)
    against = [chunk.against for chunk in decided if chunk.against]
    most = max(set(against), key=against.count)
    reason = f"{len(policed)} of {len(decided)} chunks with enough losses look policed; mostly: {most}"
    return FlowVerdict(flow.name, "not_policed", reason, detail=detail)
