# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By the level of the bucket, over milliseconds.

The memory of one frame (`memory.py`) needs the times at the policer to some microseconds. But a bucket
couples its flows for longer: its level is the same for all, and falls with what each of them sends. Behind
one bucket a flow therefore loses more while the other one sends more than usual, and both lose more at the
same moments, also because of flows that nobody sees. Jitter shorter than the bins in which packets are
counted does not hide this. `binned.py` counts them and takes out what each flow did itself. Two tests:

- *Coupling.* The residual losses of each flow are multiplied with the load of the other one and with its
  residual losses. Each of the three sums is divided by its standard deviation under circular shifts of one
  flow by at least `SHIFT_S`, which keep what each flow does by itself; z is their weighted mean, the largest
  of all bins, and p its rank among shifts.
- *Response.* A byte of either flow takes the same from one bucket. So the response h of both flows' losses to
  their own loads says how much each must lose because of the other. κ is what it does lose, as a part of that
  (weighted least squares), with its standard deviation under the same shifts. This is the only one that
  can show two policers. It is blind if a flow sends a window at a time: then it loses the end of its own
  bursts, whatever the other one does.

κ behind one and behind two policers was seen to be normal around `KAPPA_SHARED` and 0. The logarithm of the
likelihood ratio of the two is the evidence of the response; z beyond `SURE_Z` adds to it. Of
flows captured behind the policer z decides nothing against the response: the host that receives both moves
the times of both at once (2 of 20 pairs of a receiver, behind two policers, had z of 13 and κ of 0). Nor is
κ near 0 a sign of two there, as losses are put where a hole was seen (κ of 0.06 ± 0.02 behind one).

Flows in step lose in step behind two policers, and what the other one sends is what the flow itself sends.
So no policer in common is found if their loads correlate: CUBIC flows in step, behind two policers, had 0.57
to 0.77 with jitter of 0 or 1 ms; flows behind one that were found had 0.46 at most.

Bins longer than a quarter of an RTT are not used: over RTTs, flows behind two policers lose in step, too. So
they do in the first second after they started together, which is left out.
Where the clocks may differ by a constant, all lags within it are tried, for the shifted series as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from weir.analysis.detectors.binned import LAGS, BinnedFlow, binned, later, shifted, smoothness
from weir.analysis.detectors.events import FlowEvents, after_start, few_losses, statistics_of
from weir.analysis.detectors.nulls import rank_p
from weir.analysis.tables import Floats

KAPPA_SHARED = {2_000_000: 0.7, 5_000_000: 0.6, 10_000_000: 0.5}
"""By the width of bins, ns. Each divides the largest, so that shifts by it are shifts of all."""
SPREAD_SHARED, SPREAD_SEPARATE = 0.22, 0.1
"""Standard deviations of κ besides those of its measurement."""
SHIFT_S = 2.0
MIN_SMOOTHNESS, MIN_RESPONSE_Z = 0.7, 5.0
"""Of both flows, for the response to count. CUBIC flows of fewer than 10 packets per RTT had up to 0.65, and
κ of 0 behind one policer."""
SURE_Z, EVIDENCE = 4.0, 3.0
"""Evidence of 3 is odds of 20 to 1. Flows in step behind two policers had z up to 7.7 in 634 trials."""
LOADS_IN_STEP = 0.5
"""Correlation of the loads from which on nothing is found shared."""
MIN_LOSSES = 15
_TINY = 1e-12
Verdict = Literal["shared", "separate", "cannot_tell"]


@dataclass(frozen=True)
class LevelResult:
    """The verdict; z at `bin_ms`, where it is largest, and its rank p among shifts; κ and its standard error.

    `evidence` is the logarithm of the odds of one policer. `pairs`: packets of one and of the other flow in
    the same shortest bin. If there are many, one bucket would be seen. `load_correlation` is the largest one
    of all bins.
    """

    verdict: Verdict
    reason: str
    p: float | None = None
    z: float | None = None
    bin_ms: float | None = None
    pairs: int = 0
    kappa: float | None = None
    kappa_error: float | None = None
    evidence: float | None = None
    load_correlation: float | None = None

    @property
    def of_response(self) -> float:
        """The evidence of the response alone; 0 without one."""
        if self.kappa is None or self.evidence is None:
            return 0.0
        return self.evidence - max((self.z or 0.0) - SURE_Z, 0.0)

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return statistics_of(self)


def bucket_level(a: FlowEvents, b: FlowEvents) -> LevelResult:
    """Do two flows share a bucket? See the module's text."""
    if few := few_losses(a.lost, b.lost, MIN_LOSSES):
        return LevelResult("cannot_tell", few)
    start_ns, end_ns = after_start(a, b)
    longest = max(KAPPA_SHARED)
    count = (end_ns - start_ns) // longest
    least = int(SHIFT_S * 1e9) // longest
    if count < 4 * least:
        return LevelResult("cannot_tell", f"the flows ran together for less than {4 * SHIFT_S:g} s")
    blurred_ns, clock_error_ns = max(a.jitter_ns, b.jitter_ns), max(a.clock_error_ns, b.clock_error_ns)
    widest_ns = max(a.min_rtt_ns, b.min_rtt_ns) // 4
    usable = [width for width in KAPPA_SHARED if blurred_ns <= width <= widest_ns]
    if not usable:
        return LevelResult(
            "cannot_tell",
            f"times are wrong by about {blurred_ns / 1e6:.1f} ms, and a quarter of an RTT is "
            f"{widest_ns / 1e6:.1f} ms: no bin is longer than the one and shorter than the other",
        )
    smooth = min(smoothness(a), smoothness(b)) >= MIN_SMOOTHNESS
    curves, pairs, responses, correlations = [], [], [], []
    for width in usable:
        times, lags = longest // width, -(-clock_error_ns // width)
        one, other = (binned(flow, start_ns, width, count * times) for flow in (a, b))
        pairs.append(int(np.sum(one.packets * other.packets)))
        correlations.append(_correlation(one.load, other.load, lags))
        curves.append(_standard(_largest(_z(one, other, least * times), lags), least * times)[::times])
        if smooth:
            one, other = (binned(flow, start_ns, width, count * times, odds=True) for flow in (a, b))
            if response := _response(one, other, least * times, lags, KAPPA_SHARED[width]):
                responses.append(response)
    z = np.array(curves)
    best = int(np.argmax(z[:, 0]))
    largest = z.max(axis=0)
    p = rank_p(float(largest[0]), largest[least : len(largest) - least + 1])
    clearest = max(responses, key=lambda response: abs(response.evidence), default=None)
    behind = a.behind_policer or b.behind_policer
    result = _judged(float(z[best, 0]), p, usable[best] / 1e6, pairs[0], clearest, behind)
    return _unless_in_step(replace(result, load_correlation=max(correlations)))


@dataclass(frozen=True)
class _Response:
    kappa: float
    error: float
    evidence: float


def _judged(
    z: float, p: float, bin_ms: float, pairs: int, response: _Response | None, behind_policer: bool
) -> LevelResult:
    said = f"over {bin_ms:g} ms, loss follows the other flow's load and loss with z = {z:.1f} (p = {p:.3f})"
    by_response, kappa, error = 0.0, None, None
    if response:
        by_response, kappa, error = response.evidence, response.kappa, response.error
        least, most = min(KAPPA_SHARED.values()), max(KAPPA_SHARED.values())
        said += (
            f"; per byte, the other flow's load causes {kappa:.2f} ± {error:.2f} of the loss that the flow's "
            f"own does (about {least} to {most} behind one policer, 0 behind two)"
        )
    evidence = by_response + max(z - SURE_Z, 0.0)
    verdict: Verdict = "cannot_tell"
    if behind_policer and evidence >= EVIDENCE and by_response <= -EVIDENCE:
        said = f"loss coincides, but does not follow the other's load as it would behind one policer: {said}"
    elif evidence >= EVIDENCE:
        verdict = "shared"
    elif evidence <= -EVIDENCE and behind_policer:
        said = f"behind the policer losses are not seen where they were, which weakens the response: {said}"
    elif evidence <= -EVIDENCE:
        verdict = "separate"
    else:
        said = f"evidence of {EVIDENCE:g} is needed, and is {evidence:.1f}: {said}"
    return LevelResult(verdict, said, p, z, bin_ms, pairs, kappa, error, evidence)


def _unless_in_step(result: LevelResult) -> LevelResult:
    correlation = result.load_correlation or 0.0
    if result.verdict != "shared" or correlation < LOADS_IN_STEP:
        return result
    reason = (
        f"the flows send in step (correlation of {correlation:.2f}), and so they lose in step behind two "
        f"policers, too: {result.reason}"
    )
    return replace(result, verdict="cannot_tell", reason=reason)


def _correlation(one: Floats, other: Floats, lags: int) -> float:
    """The largest correlation of two series within `lags` bins; their means are about 0."""
    each = shifted(one, other) / max(float(np.sqrt((one @ one) * (other @ other))), _TINY)
    return float(each[np.arange(-lags, lags + 1)].max())


def _z(one: BinnedFlow, other: BinnedFlow, least: int) -> Floats:
    """z for each circular shift of `one` against `other`; those by fewer than `least` bins are no chance."""
    answer = [flow.residual * flow.slope for flow in (one, other)]
    slopes = [flow.slope**2 for flow in (one, other)]
    both = shifted(answer[0] ** 2, slopes[1]) + shifted(slopes[0], answer[1] ** 2)
    sums = [
        (shifted(one.load, answer[1]), shifted(one.load**2, slopes[1]), 1.0),
        (shifted(answer[0], other.load), shifted(slopes[0], other.load**2), 1.0),
        (shifted(*answer), both / 2, np.sqrt(2.0)),
    ]
    z = np.zeros(len(one.load))
    for value, square, weight in sums:
        z += weight * _standard(value / np.sqrt(np.maximum(square, _TINY)), least)
    return _standard(z, least)


def _standard(values: Floats, least: int) -> Floats:
    """In standard deviations of those at shifts by at least `least`, from their mean."""
    chance = values[least : len(values) - least + 1]
    result: Floats = (values - chance.mean()) / max(float(chance.std()), _TINY)
    return result


def _largest(values: Floats, lags: int) -> Floats:
    """The largest of each value and its `lags` neighbours on either side, of a circle."""
    result: Floats = np.max([np.roll(values, lag) for lag in range(-lags, lags + 1)], axis=0)
    return result


def _response(one: BinnedFlow, other: BinnedFlow, least: int, lags: int, expected: float) -> _Response | None:
    """κ of both flows together; None if they do not lose more for what they send themselves.

    The clocks may differ by `lags` bins: it is that κ which speaks most for one policer.
    """
    weight = [1 / max(float(flow.response_variance.mean()), _TINY**2) for flow in (one, other)]
    response = np.average([one.response, other.response], axis=0, weights=weight)
    if float(response.sum()) < MIN_RESPONSE_Z * np.sqrt(LAGS / sum(weight)):
        return None
    value, square = np.zeros(len(one.load)), np.zeros(len(one.load))
    for flow, loser, sign in ((one, other, 1), (other, one, -1)):
        risk = np.sum([response[lag] * later(flow.load, lag) for lag in range(LAGS)], axis=0)
        back = slice(None) if sign > 0 else -np.arange(len(risk))
        value += shifted(risk, loser.residual * loser.slope)[back]
        square += shifted(risk**2, loser.slope**2)[back]
    each = value / np.maximum(square, _TINY**2)
    chance = each[least : len(each) - least + 1]
    error = float(chance.std())
    kappa = each[np.arange(-lags, lags + 1)] - chance.mean()
    one_bucket, two = error**2 + SPREAD_SHARED**2, error**2 + SPREAD_SEPARATE**2
    evidence = (kappa**2 / two - (kappa - expected) ** 2 / one_bucket + np.log(two / one_bucket)) / 2
    # The wider of the two distributions would make a κ far below 0 more likely behind one policer.
    evidence = np.where(kappa < 0, np.minimum(evidence, 0.0), evidence)
    best = int(np.argmax(evidence))
    # All lags are equally likely at first, so their mean is the evidence of one policer, not the best.
    of_all = float(np.logaddexp.reduce(evidence) - np.log(len(evidence)))
    return _Response(float(kappa[best]), error, max(of_all, min(float(evidence[best]), 0.0)))
