# SPDX-License-Identifier: Apache-2.0
"""The model's meters at chosen times, against an exact policer with the rates and bursts of the plan."""

import os
import random
from fractions import Fraction

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

from weir.ptftests.entries import GREEN, RED, YELLOW
from weir.ptftests.model import harness
from weir.ptftests.model.chips import CHIPS
from weir.ptftests.model.meters import (
    IN_RED,
    IN_YELLOW,
    Meters,
    Sent,
    main,
    measure,
    random_pairs,
    report,
)
from weir.ptftests.table import ROOT

WORSE = (GREEN, YELLOW, RED)
"""From best to worst; the numbers of the colours are in another order."""
CAME_IN = {0: GREEN, IN_YELLOW: YELLOW, IN_RED: RED}


class Bucket:
    """A bucket that is credited the plan's rate, in portions: its mantissa, every 2^exponent cycles."""

    def __init__(self, buckets, rate_bytes_per_s, burst_bytes):
        encoded = buckets.encode(rate_bytes_per_s, burst_bytes)
        shown = buckets.effective(rate_bytes_per_s, burst_bytes)
        self.period = 1 << encoded.rate_exponent
        self.credit = Fraction(shown.rate_bps) / 8 / buckets.clock_hz * self.period
        self.burst = self.level = int(shown.burst_bytes)

    def take(self, before, now, frame_bytes):
        credited = self.credit * (now // self.period - before // self.period)
        self.level = min(self.burst, self.level + credited) - frame_bytes


def colours_of_policer(chip, rates, sent, start):
    """RFC 2698, colour-aware, with the colour that the packets before have left (docs/tofino.md).

    `start` is the first packet's time in cycles.
    """
    cir, cburst, pir, pburst = rates
    committed, peak = Bucket(chip.buckets, cir, cburst), Bucket(chip.buckets, pir, pburst)
    left, before, now = GREEN, 0, start
    for item in sent:
        colour = max(CAME_IN[item.dscp], left, key=WORSE.index)
        committed.take(before, now, item.frame_bytes if colour == GREEN else 0)
        peak.take(before, now, 0 if colour == RED else item.frame_bytes)
        left = RED if peak.level < 0 else YELLOW if committed.level < 0 else GREEN
        yield colour
        before, now = now, now + item.gap_ns * chip.model_hz // 10**9


def fewest_differences(chip, rates, sent, found):
    """How many colours differ. Credit comes at multiples of its period; one start has to fit all packets."""
    longest = max(Bucket(chip.buckets, *rates[at : at + 2]).period for at in (0, 2))
    return min(
        sum(
            wanted != colour
            for wanted, colour in zip(colours_of_policer(chip, rates, sent, start), found, strict=True)
        )
        for start in range(longest)
    )


@pytest.fixture(scope="module", params=CHIPS.values(), ids=CHIPS)
def meters(request, tmp_path_factory):
    chip = request.param
    problem = harness.problem(chip)
    if problem is not None:
        pytest.skip(f"tofino: {problem}")
    program = ROOT / chip.program
    if not program.is_file():
        pytest.skip(
            f"p4c: make ptf TARGET={chip.target} compiles the program, with p4c-barefoot and bfas on PATH"
        )
    info = text_format.Parse((program.parents[1] / f"{chip.name}.p4info.txtpb").read_text(), p4i.P4Info())
    made = Meters(chip, program, info, tmp_path_factory.mktemp("model"))
    yield made
    made.close()


def packets(seed, mean_rate, dscps=(0,), count=400):
    draw = random.Random(seed)
    sizes = [draw.choice((60, 200, 590, 1500)) for _ in range(count)]
    return [
        Sent(size, max(32, int(draw.expovariate(mean_rate / size) * 1e9) // 8 * 8), draw.choice(dscps))
        for size in sizes
    ]


@pytest.mark.parametrize(
    ("rates", "dscps"),
    [
        ((375_000_000, 12_000, 375_000_000, 12_000), (0,)),
        ((250_000_000, 9_000, 500_000_000, 21_000), (0,)),
        ((250_000_000, 9_000, 500_000_000, 21_000), (0, IN_YELLOW, IN_RED)),
    ],
    ids=["one rate", "two rates", "two rates, colour-aware"],
)
def test_each_packet_has_the_colour_of_the_exact_policer_with_the_plans_rate_and_burst(meters, rates, dscps):
    meters.use(*rates)
    sent = packets(1, 1_000_000_000, dscps)
    found = meters.colours(sent)
    assert all(found.count(colour) >= 20 for colour in ({GREEN, RED} if rates[0] == rates[2] else WORSE))
    wrong = fewest_differences(meters.chip, rates, sent, found)
    print(f"{len(sent)} packets, {[found.count(colour) for colour in WORSE]}, {wrong} of another colour")
    assert wrong == 0
    # The comparison can fail: a policer of 2 % more, in rates or in bursts, has other colours.
    cir, cburst, pir, pburst = rates
    assert fewest_differences(meters.chip, (cir * 51 // 50, cburst, pir * 51 // 50, pburst), sent, found) > 0
    assert fewest_differences(meters.chip, (cir, cburst * 51 // 50, pir, pburst * 51 // 50), sent, found) > 0


def test_long_run_rate_and_burst_are_those_of_the_plan(meters):
    ((rate, burst),) = random_pairs(1, seed=4)
    plan, found = meters.chip.buckets.effective(rate, burst), measure(meters, rate, burst)
    # A credit of 511 bytes and a small frame, of 200 kB and of the burst.
    assert found.rate_bytes_per_s == pytest.approx(plan.rate_bps / 8, rel=0.003)
    assert found.burst_bytes == pytest.approx(plan.burst_bytes, abs=511 + 60)


def test_random_pairs_are_whole_kbit():
    assert all(value % 125 == 0 for pair in random_pairs(50, seed=3) for value in pair)


def test_a_report_has_the_quantiles_and_the_mean():
    assert report("error", list(range(101))).split() == [
        "error",
        "0.000",
        "5.000",
        "50.000",
        "95.000",
        "100.000",
        "50.000",
    ]


def test_without_the_model_the_program_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    assert main(["--program", os.fspath(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(
        "SKIP the meters of tofino1-model: tofino_test_harness is not on PATH"
    )
