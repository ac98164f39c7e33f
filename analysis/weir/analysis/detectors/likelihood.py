# SPDX-License-Identifier: Apache-2.0
"""Do two flows share a policer? By the likelihood of all fates in one bucket and in two.

A token bucket's level is hidden, and so is the traffic that was not captured. `weir_core.TokenBucket`
follows both through the packets of a flow, or of two flows in one bucket, and says how likely each packet's
fate was, given the fates before it (a hidden Markov model: the level in quarters of a frame, and traffic in
bursts of four frames whose load changes every `LOAD_S`). With ℓ the logarithm of the likelihood of all fates,

    S = ℓ(both in one bucket) − ℓ(the first alone) − ℓ(the second alone)

is large if each flow's fates tell what happens to the other one, near 0 if they tell nothing, and far below 0
if what one of them says about the bucket is wrong for the other: of two policers one is often full while the
other one is empty. The rate is unknown; S is the largest of `RATES` rates, from that of both flows to
`MOST_OTHERS` times as much.

Flows of one bucket may lose different parts of their packets, as one sends in bursts and the other one does
not, so each flow's odds are all multiplied by what makes its expected losses as many as it had.

S is also that of the flows shifted against each other by `NEAR_S` to `LAGS_S`, and z is how far S is above
these, in their standard deviations.

- *Two policers*: S far below 0, and z near 0 or below. Slow trends cannot make S so, unless one of the flows
  loses packets elsewhere. The model is no exact one: if z is larger, the packets that met say something
  else than those that did not, and nothing follows.
- *One policer*: z is large. S alone is large behind two policers, too, if losses come and go together, but
  then S of shifted flows is as large. Flows that compete in one bucket lose at different moments; that, too,
  is likely in one bucket, so z is large where correlations are negative.

Jitter hides the level, but not the load. A packet counts as one that came at any time within some times the
jitter, `JITTERS` or `FINE_JITTERS`, and `CLOCK_ERRORS` times what the clocks may differ by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit
from weir_core import TokenBucket

from weir.analysis.detectors.correlogram import LAGS_S, MIN_LOSSES, NEAR_S
from weir.analysis.detectors.events import FlowEvents, after_start, few_losses, statistics_of
from weir.analysis.detectors.memory import OWN, excess_of, largest_tau, own_z
from weir.analysis.detectors.nulls import rank_p
from weir.analysis.detectors.step import alike
from weir.analysis.tables import Bools, Floats

EVIDENCE = 10.0
"""S of minus this or less is two policers. Of 238 runs behind one policer none had it at exact times, one or
two had it with jitter of 0.1, 1 and 5 ms each and five with 10 ms, all but two of these with a correlogram's
z of 6 and more."""
SAME_Z, SURE_Z = 2.5, 4.0
"""z of two policers is below the one, z of one policer above the other. Of pairs behind two policers (240 of
runs, 84 simulated, jitter of 0 to 10 ms) none with an S above −10 had a z above 3.8."""
RATES, MOST_OTHERS, LEAST_OTHERS = 5, 60.0, 0.7
SHORTEST_S = 60e-6
"""The shortest time for a frame's tokens that is tried."""
STEPS = 4
"""`weir_core.TokenBucket` counts time in steps; in so many a bucket gets a frame's tokens."""
LOAD_S = 0.6
"""With 0.1 s and Poisson traffic, S of 72 pairs of 70 to 100 Mbit/s behind one policer was larger than that
of 72 behind two in 88 % of all comparisons (jitter of 1 ms); with 0.3 s and bursts of four frames in 98 %. Of
48 pairs each of 40 and 50 Mbit/s it is so in 93 (CUBIC) and 96 % (BBR) with 0.3 s, in 94 and 96 % with this
and in 95 and 97 % with 1 s, with which fewer of the faster flows behind two are found."""
JITTERS, FINE_JITTERS, FINE_NS = 8, 2, 300_000
"""A packet counts as one that came at any time within so many times the jitter, `FINE_JITTERS` up to
`FINE_NS`. With jitter of 0.1 ms, z of BBR and of CUBIC flows behind one policer (122 pairs of runs of 40 and
50 Mbit/s) is 2.9 and 1.4 standard deviations above that behind two with twice, 2.4 and 1.1 with eight times.
With 1 ms and more, 66 of 254 simulated pairs behind one have `SURE_Z` with twice, 85 with eight times."""
CLOCK_ERRORS = 2
CLOCK_RTTS = 0.25
"""Where clocks might differ by 12 ms, at an RTT of 20 ms, one of 60 pairs behind one policer was found
separate; with 2 ms none, and 24 of 60 behind two (jitter of 1 ms)."""
NEWTON_STEPS, NEWTON_ENDS = 16, 1e-9
BLOCK_S, CLIP = 0.02, 5.0
"""S is summed over blocks of time, of which none counts for more: a burst that is longer than the model's
bucket would decide alone."""
OWN_Z = 4.0
"""So much the losses of one of the flows have to depend on its own drops. Without this, a flow of 0.2 Mbit/s
that lost a fifth of its packets was found to have another policer than one that lost 2 %."""
THINNING_SEED = 1
"""Packets of one flow within milliseconds say the same of the bucket, so of the flow that sends more a random
part is taken, and with it a longer time. Of 88 simulated pairs with jitter of 1 ms, 12 of two policers were
found in place of 6, and one pair of one policer with either."""
MAX_PACKETS = 12_000
"""Of both flows together, those in a row in which both have most losses. With 6,000, 12 fewer of 80 runs
behind two policers were found with jitter of 5 ms; of 100 simulated pairs behind one, 3 were found wrongly
with either number then, and with 1 ms one instead of two."""
SHIFTS, LEAST_LAGS = 10, 3
"""Shifts to either side; the flows have to run together for so many times the longest one."""


@dataclass(frozen=True)
class LikelihoodResult:
    """The verdict; `evidence` is S with `tau_us` for a frame's tokens.

    z is how far S is above that of shifted flows, in standard deviations of these, and p its rank among them.
    """

    verdict: Literal["shared", "separate", "cannot_tell"]
    reason: str
    p: float | None = None
    evidence: float | None = None
    z: float | None = None
    tau_us: float | None = None

    def detail(self) -> dict[str, object]:
        """All statistics of the verdict, ready for JSON."""
        return statistics_of(self)


@dataclass(frozen=True)
class _Packets:
    """A flow's packets by time; seconds from the first moment that counts."""

    time_s: Floats
    lost: Bools

    def part(self, kept: Bools, start_s: float = 0.0) -> _Packets:
        """Those that are kept; times from `start_s` on."""
        return _Packets(self.time_s[kept] - start_s, self.lost[kept])


def bucket_likelihood(a: FlowEvents, b: FlowEvents) -> LikelihoodResult:
    """Do two flows share a policer? See the module's text."""
    if a.behind_policer or b.behind_policer:
        return LikelihoodResult("cannot_tell", "behind the policer losses are not seen where they were")
    jitter_ns, clock_error_ns = max(a.jitter_ns, b.jitter_ns), max(a.clock_error_ns, b.clock_error_ns)
    rtt_ns = max(a.min_rtt_ns, b.min_rtt_ns)
    if clock_error_ns > rtt_ns * CLOCK_RTTS:
        reason = f"clocks may differ by {clock_error_ns / 1e6:.0f} ms, more than a quarter of an RTT"
        return LikelihoodResult("cannot_tell", reason)
    jitters = FINE_JITTERS if jitter_ns <= FINE_NS else JITTERS
    spread_s = (jitters * jitter_ns + CLOCK_ERRORS * clock_error_ns) / 1e9
    if spread_s > LAGS_S:
        return LikelihoodResult(
            "cannot_tell", f"times are wrong by about {jitter_ns / 1e6:.0f} ms: too coarse"
        )
    if few := few_losses(a.lost, b.lost, MIN_LOSSES):
        return LikelihoodResult("cannot_tell", few)
    start_ns, end_ns = _while_lossy(a, b)
    one, other = _most_losses(*_thinned(*(_between(flow, start_ns, end_ns) for flow in (a, b))))
    if few := few_losses(one.lost, other.lost, MIN_LOSSES):
        return LikelihoodResult("cannot_tell", f"while both flows ran, {few}")
    largest_s = largest_tau(a, b, start_ns, end_ns)
    least_s = max(SHORTEST_S, largest_s / MOST_OTHERS)
    taus = np.geomspace(least_s, max(LEAST_OTHERS * largest_s, 1.5 * least_s), RATES)
    tests = [_Test(one, other, float(tau), spread_s) for tau in taus]
    values = [test.evidence(0.0) for test in tests]
    best = int(np.argmax(values))
    evidence, tau_s = values[best], float(taus[best])
    shifts = _shifts(min(tests[best].lasts_s / LEAST_LAGS, LAGS_S), spread_s)
    shifted = np.array([tests[best].evidence(shift) for shift in shifts])
    z = float((evidence - shifted.mean()) / max(float(shifted.std(ddof=1)), 1.0))
    said = f"one bucket is {_likely(evidence)} than two (z = {z:.1f}, against flows shifted in time)"
    result = LikelihoodResult("cannot_tell", said, rank_p(evidence, shifted), evidence, z, tau_s * 1e6)
    if evidence > -EVIDENCE:
        found = z >= SURE_Z and not alike(a, b)
        return replace(result, verdict="shared") if found else result
    if z >= SAME_Z:
        why = "packets that met say something else than others, so the model does not hold: "
        return replace(result, reason=why + said)
    if not _by_bucket(a, b, start_ns, end_ns):
        why = "neither flow's losses depend on its own drops as those of a bucket would: "
        return replace(result, reason=why + said)
    return replace(result, verdict="separate")


def _while_lossy(a: FlowEvents, b: FlowEvents) -> tuple[int, int]:
    """While both flows ran, from the first loss to the last one of either, ns.

    Before the first and after the last one flows lose nothing behind one policer and behind two alike: other
    traffic starts later, or ends earlier.
    """
    start_ns, end_ns = after_start(a, b)
    drops_ns = np.concatenate([flow.sent_ns[flow.lost] for flow in (a, b)])
    drops_ns = drops_ns[(drops_ns >= start_ns) & (drops_ns <= end_ns)]
    return (int(drops_ns.min()), int(drops_ns.max())) if len(drops_ns) else (start_ns, end_ns)


def _by_bucket(a: FlowEvents, b: FlowEvents, start_ns: int, end_ns: int) -> bool:
    """Whether one of the flows loses more, or less, after its own drops."""
    taus = largest_tau(a, b, start_ns, end_ns) * np.array(OWN)
    rtt_ns = max(a.min_rtt_ns, b.min_rtt_ns)
    flows = (excess_of(flow, start_ns, end_ns, rtt_ns) for flow in (a, b))
    return any(float(np.abs(own_z(flow, taus)).max()) >= OWN_Z for flow in flows)


def _likely(evidence: float) -> str:
    return f"10^{abs(evidence) / np.log(10):.0f} times {'more' if evidence > 0 else 'less'} likely"


class _Test:
    """S of two flows, for buckets that get a frame's tokens in `tau_s` seconds."""

    def __init__(self, one: _Packets, other: _Packets, tau_s: float, spread_s: float) -> None:
        self._flows, self._step_s = (one, other), tau_s / STEPS
        self.lasts_s = max(float(flow.time_s[-1]) for flow in self._flows) + tau_s
        self._bucket = TokenBucket(LOAD_S / self._step_s, round(spread_s / self._step_s))
        self._lost = np.concatenate([one.lost, other.lost])
        self._alone = np.concatenate(
            [_fates(self._odds(flow.time_s, flow.lost), flow.lost) for flow in self._flows]
        )

    def _odds(self, time_s: Floats, lost: Bools) -> Floats:
        """The logarithm of each packet's odds to be dropped; times ascend."""
        steps = np.round(time_s / self._step_s).astype(np.int64)
        dropped = np.array(self._bucket.drop_probabilities(steps, lost.astype(np.uint8)), dtype=np.float64)
        result: Floats = np.log(dropped) - np.log1p(-dropped)
        return result

    def evidence(self, shift_s: float) -> float:
        """S with the first flow's times increased by `shift_s`."""
        one, other = self._flows
        time_s = np.concatenate([(one.time_s + shift_s) % self.lasts_s, other.time_s])
        order = np.argsort(time_s, kind="stable")
        odds = np.empty(len(order))
        odds[order] = self._odds(time_s[order], self._lost[order])
        of_one, of_other = np.split(odds, [len(one.time_s)])
        together = np.concatenate([_fates(of_one, one.lost), _fates(of_other, other.lost)])
        blocks = np.bincount((time_s / BLOCK_S).astype(np.int64), together - self._alone)
        return float(np.clip(blocks, -CLIP, CLIP).sum())


def _fates(odds: Floats, lost: Bools) -> Floats:
    """The logarithm of each fate's probability, with the odds times what makes the flow's loss rate its own.

    Newton's method; `odds` are logarithms.
    """
    more = 0.0
    for _ in range(NEWTON_STEPS):
        expected = expit(odds + more)
        step = float(np.clip((lost.sum() - expected.sum()) / (expected * (1 - expected)).sum(), -1.0, 1.0))
        more += step
        if abs(step) < NEWTON_ENDS:
            break
    result: Floats = -np.logaddexp(0.0, np.where(lost, -1.0, 1.0) * (odds + more))
    return result


def _between(flow: FlowEvents, start_ns: int, end_ns: int) -> _Packets:
    order = np.argsort(flow.sent_ns, kind="stable")  # conversion to another clock may reorder packets
    order = order[(flow.sent_ns[order] >= start_ns) & (flow.sent_ns[order] <= end_ns)]
    return _Packets((flow.sent_ns[order] - start_ns) / 1e9, flow.lost[order])


def _thinned(one: _Packets, other: _Packets) -> tuple[_Packets, _Packets]:
    """Of the flow with more packets a random part, as many as the other one's or as `MAX_PACKETS` leave.

    The others count as traffic that was not captured.
    """
    fewer = min(len(flow.time_s) for flow in (one, other))
    most = max(fewer, MAX_PACKETS - fewer)
    rng = np.random.default_rng(THINNING_SEED)
    kept = [rng.random(len(flow.time_s)) * len(flow.time_s) < most for flow in (one, other)]
    return one.part(kept[0]), other.part(kept[1])


def _most_losses(one: _Packets, other: _Packets) -> tuple[_Packets, _Packets]:
    """Of both flows the packets of the `MAX_PACKETS` in a row in which both have most losses.

    That is where the product of their numbers is largest: each loss of the one can meet each of the other.
    """
    time_s = np.sort(np.concatenate([one.time_s, other.time_s]))
    if len(time_s) <= MAX_PACKETS:
        return one, other
    last = MAX_PACKETS - 1
    losses = np.ones(len(time_s) - last)
    for flow in (one, other):
        drops_s = flow.time_s[flow.lost]
        losses *= np.searchsorted(drops_s, time_s[last:], "right") - np.searchsorted(drops_s, time_s[:-last])
    first = int(np.argmax(losses))
    start_s, end_s = time_s[first], time_s[first + last]
    inside = [(flow.time_s >= start_s) & (flow.time_s <= end_s) for flow in (one, other)]
    return one.part(inside[0], start_s), other.part(inside[1], start_s)


def _shifts(longest_s: float, spread_s: float) -> Floats:
    one_way = np.linspace(min(NEAR_S, longest_s / 2), longest_s, SHIFTS) + spread_s
    result: Floats = np.concatenate([one_way, -one_way])
    return result
