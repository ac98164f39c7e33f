# SPDX-License-Identifier: Apache-2.0
"""WeHeY's loss-trend correlation.

Z. Shmeis, M. Abdullah, P. Nikolopoulos, K. Argyraki, D. Choffnes, P. Gill, "Localizing Traffic
Differentiation", IMC 2023; with the parameters of M. Rimkevičius, "Localizing Traffic Differentiation with
TCP BBR", EPFL 2024 ("the report"). The rule, with our choices where the texts are silent:

1. Interval sizes are 10, 11, …, 50 times min RTT, which is the larger of the two flows' smallest RTTs
   (report §2.4, step 2). A step of 1 is that of the authors' published analysis server ("the server").
2. Intervals tile the time in which both flows were sending, [later first, earlier last packet]; a remainder
   shorter than an interval is left out. Both flows are on one clock. (The server starts each capture at its
   own first packet, which shifts one flow against the other, and keeps the rest.)
3. The loss ratio of a flow in an interval is bytes lost ÷ bytes sent in it, by the time of sending of the
   lost transmission (report §2.4, steps 1 and 3; bytes as in the server).
4. Intervals in which a flow sent 10 packets or fewer are left out. Of each run of intervals in which neither
   flow lost anything the first is kept (both as in the server).
5. A size is used when 30 intervals of it fit (as in the server). The report recommends runs so long that 30
   have loss (§3.1).
6. Spearman's rank correlation, ties by average rank; p from Student's t with n − 2 degrees of freedom, one-
   sided: correlation means a positive one (as in the server). A series without variation has no
   correlation: rho and p are None, the size counts as not significant.
7. A size is significant when p < 0.05 (report §5). Verdict `shared` when more than half of the sizes used are
   (report §5: "more than 50 % of the intervals"), else `separate`; `cannot_tell` when no size is used
   or a flow lost nothing at all in this time (report §5.2).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from scipy import stats

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.tables import Floats, Ints
from weir.rundir.plural import plural

MULTIPLES = range(10, 51)
MIN_INTERVALS = 30
MIN_PACKETS = 11
ALPHA = 0.05
MAJORITY = 0.5


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of two series; `rho` and `p` are None where a series does not vary."""

    n: int
    rho: float | None
    p: float | None


@dataclass(frozen=True)
class SizeResult:
    """One interval size: `intervals` fit, `n` of them are kept; their correlation."""

    multiple: int
    interval_s: float
    intervals: int
    n: int
    rho: float | None
    p: float | None
    used: bool
    significant: bool


@dataclass(frozen=True)
class LossTrendResult:
    """The verdict over all sizes; `significant` of `sizes_used` had a positive correlation with p < alpha."""

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    min_rtt_s: float
    common_duration_s: float
    significant: int
    sizes_used: int
    sizes: tuple[SizeResult, ...]

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        values = asdict(self)
        del values["verdict"]
        values["sizes"] = [asdict(size) for size in self.sizes]
        return values


def correlate(a: Floats, b: Floats) -> Correlation:
    """Spearman's rho of two series of one length and its one-sided p (alternative: positive)."""
    if len(a) != len(b):
        raise ValueError(f"series of {len(a)} and {len(b)} values; they must be of one length")
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return Correlation(len(a), None, None)
    result = stats.spearmanr(a, b, alternative="greater")
    return Correlation(len(a), float(result.statistic), float(result.pvalue))


def loss_ratios(flow: FlowEvents, start_ns: int, interval_ns: int, intervals: int) -> tuple[Floats, Ints]:
    """Bytes lost ÷ bytes sent per interval (NaN where nothing was sent), and packets sent per interval."""
    sent_ns, sent_bytes, lost_bytes = flow.totals
    edges = np.searchsorted(sent_ns, interval_edges(start_ns, interval_ns, intervals))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.diff(lost_bytes[edges]) / np.diff(sent_bytes[edges]), np.diff(edges)


def interval_edges(start_ns: int, interval_ns: int, intervals: int) -> Ints:
    """Where intervals begin, and the last one ends."""
    return start_ns + interval_ns * np.arange(intervals + 1, dtype=np.int64)


def loss_series(
    a: FlowEvents, b: FlowEvents, start_ns: int, interval_ns: int, intervals: int
) -> tuple[Floats, Floats]:
    """The loss ratios of both flows in the intervals that rule 4 keeps."""
    ratio_a, packets_a = loss_ratios(a, start_ns, interval_ns, intervals)
    ratio_b, packets_b = loss_ratios(b, start_ns, interval_ns, intervals)
    enough = (packets_a >= MIN_PACKETS) & (packets_b >= MIN_PACKETS)
    return informative(ratio_a[enough], ratio_b[enough])


def informative(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Keep intervals with loss, and the first of each run of intervals without (rule 4)."""
    lossy = (x > 0) | (y > 0)
    keep = lossy | np.concatenate([[True], lossy[:-1]])[: len(lossy)]
    return x[keep], y[keep]


def loss_trend_correlation(a: FlowEvents, b: FlowEvents) -> LossTrendResult:
    """Do two flows share a policer? WeHeY's loss-trend correlation; see the module's text."""
    min_rtt_ns = max(a.min_rtt_ns, b.min_rtt_ns)
    start_ns, end_ns = 0, 0
    if len(a.sent_ns) and len(b.sent_ns):
        start_ns = max(int(a.sent_ns.min()), int(b.sent_ns.min()))
        end_ns = min(int(a.sent_ns.max()), int(b.sent_ns.max()))
    duration_ns = max(0, end_ns - start_ns)
    sizes = tuple(_one_size(a, b, start_ns, duration_ns, multiple, min_rtt_ns) for multiple in MULTIPLES)
    used = [size for size in sizes if size.used]
    significant = sum(size.significant for size in used)
    losses = [_losses(flow, start_ns, duration_ns) for flow in (a, b)]
    verdict: Literal["shared", "separate", "cannot_tell"]
    if not used:
        verdict = "cannot_tell"
        reason = (
            f"no interval size fits {MIN_INTERVALS} times; the smallest fits "
            f"{plural(sizes[0].intervals, 'time')} "
            f"(min RTT {min_rtt_ns / 1e6:.1f} ms, {duration_ns / 1e9:.1f} s in common)"
        )
    elif not all(losses):
        verdict = "cannot_tell"
        counts = f"{losses[0]} and {plural(losses[1], 'loss', 'losses')}"
        reason = f"{counts} in the {duration_ns / 1e9:.1f} s in common"
    else:
        verdict = "shared" if significant > MAJORITY * len(used) else "separate"
        reason = f"{significant} of {len(used)} interval sizes correlate with p < {ALPHA}"
    return LossTrendResult(
        verdict=verdict,
        reason=reason,
        min_rtt_s=min_rtt_ns / 1e9,
        common_duration_s=duration_ns / 1e9,
        significant=significant,
        sizes_used=len(used),
        sizes=sizes,
    )


def _losses(flow: FlowEvents, start_ns: int, duration_ns: int) -> int:
    inside = (flow.sent_ns >= start_ns) & (flow.sent_ns <= start_ns + duration_ns)
    return int(np.count_nonzero(flow.lost & inside))


def _one_size(
    a: FlowEvents, b: FlowEvents, start_ns: int, duration_ns: int, multiple: int, min_rtt_ns: int
) -> SizeResult:
    interval_ns = multiple * min_rtt_ns
    intervals = duration_ns // interval_ns
    found = correlate(*loss_series(a, b, start_ns, interval_ns, intervals))
    used = intervals >= MIN_INTERVALS
    return SizeResult(
        multiple=multiple,
        interval_s=interval_ns / 1e9,
        intervals=intervals,
        n=found.n,
        rho=found.rho,
        p=found.p,
        used=used,
        significant=used and found.p is not None and found.p < ALPHA,
    )
