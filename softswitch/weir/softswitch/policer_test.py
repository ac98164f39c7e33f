# SPDX-License-Identifier: Apache-2.0
"""Compares the policer's verdict on every packet, through the whole switch, with the RFCs in exact fractions.

Each run draws new cases; a failure prints the seed that repeats it (WEIR_POLICER_SEED=<seed>).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random, SystemRandom

import pytest
from finsy.proto import p4i

from weir_tests.softswitch import token_buckets, traffic
from weir_tests.softswitch.pipeline import PolicingSwitch
from weir_tests.softswitch.token_buckets import Colour, Config

# 8 kbit/s to 400 Gbit/s, in bytes/s.
LOWEST, HIGHEST = 1_000, 50_000_000_000
CASES = 6
PACKETS = 1_500
SEED = int(os.environ.get("WEIR_POLICER_SEED") or SystemRandom().randrange(1 << 32))


@dataclass(frozen=True)
class Kind:
    """A type of meter: its number in P4Runtime, the reference, and a function that draws a configuration."""

    spec: p4i.MeterSpec.Type.ValueType
    reference: Callable[[Config], token_buckets.Meter]
    draw: Callable[[Random], Config]


def logarithmic(random: Random, low: int, high: int) -> int:
    return round(low * (high / low) ** random.random())


def rate(random: Random) -> int:
    return logarithmic(random, LOWEST, HIGHEST)


def burst(random: Random) -> int:
    """A burst from less than the shortest frame to 100 MB; a fifth are exact multiples of a full frame."""
    if random.random() < 0.2:
        return 1_514 * random.randint(1, 100)
    return logarithmic(random, 40, 100_000_000)


def two_rates(random: Random) -> Config:
    cir = rate(random)
    return Config(cir, burst(random), logarithmic(random, cir, min(cir * 4, HIGHEST)), burst(random))


def one_rate_two_bursts(random: Random) -> Config:
    return Config(rate(random), burst(random), ebs=burst(random) * random.randint(0, 1))


def one_rate(random: Random) -> Config:
    return Config(rate(random), burst(random))


KINDS = [
    Kind(p4i.MeterSpec.TWO_RATE_THREE_COLOR, token_buckets.TwoRateThreeColour, two_rates),
    Kind(p4i.MeterSpec.SINGLE_RATE_THREE_COLOR, token_buckets.SingleRateThreeColour, one_rate_two_bursts),
    Kind(p4i.MeterSpec.SINGLE_RATE_TWO_COLOR, token_buckets.SingleRateTwoColour, one_rate),
]


def check(kind: Kind, config: Config, arrivals: list[tuple[int, int]], case: str) -> list[Colour]:
    switch = PolicingSwitch.start(kind.spec, config, seed=1)
    found = switch.colours(arrivals)
    reference = kind.reference(config)
    for number, (time_ns, length) in enumerate(arrivals):
        expected = reference.colour(length, time_ns)
        assert found[number] == expected, (
            f"{case}: packet {number} of {length} bytes at {time_ns} ns is {found[number].name}, "
            f"by the RFC {expected.name}; {config}"
        )
    assert switch.counted() == [found.count(colour) for colour in Colour], case
    return found


@pytest.mark.parametrize("process", traffic.PROCESSES, ids=lambda process: process.__name__)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: p4i.MeterSpec.Type.Name(kind.spec).lower())
def test_every_verdict_is_that_of_exact_arithmetic(kind: Kind, process: traffic.Process) -> None:
    random = Random(f"{SEED} {kind.spec} {process.__name__}")
    for case in range(CASES):
        config = kind.draw(random)
        offered = config.cir * random.uniform(0.5, 3)
        arrivals = traffic.take(process(random, offered), PACKETS)
        check(kind, config, arrivals, f"WEIR_POLICER_SEED={SEED}, case {case}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: p4i.MeterSpec.Type.Name(kind.spec).lower())
def test_all_colours_occur_within_a_year_of_traffic(kind: Kind) -> None:
    config = Config(125_000, 15_000, 250_000, 30_000) if kind.draw is two_rates else Config(125_000, 15_000)
    if kind.draw is one_rate_two_bursts:
        config = Config(125_000, 15_000, ebs=30_000)
    arrivals = traffic.take(traffic.whole_year(Random(SEED), 300_000), 2_000)
    assert arrivals[-1][0] > traffic.YEAR_NS
    found = check(kind, config, arrivals, f"WEIR_POLICER_SEED={SEED}")
    colours = set(Colour) - ({Colour.YELLOW} if kind.draw is one_rate else set())
    assert set(found) == colours


def test_a_packet_conforms_in_the_nanosecond_in_which_its_last_token_arrives() -> None:
    # At 3 bytes/s, 100 tokens take 33.333… s; 33,333,333,334 ns is the first whole nanosecond after that.
    kind, config = KINDS[2], Config(3, 100)
    for at_ns, expected in [(33_333_333_333, Colour.RED), (33_333_333_334, Colour.GREEN)]:
        assert check(kind, config, [(0, 100), (at_ns, 100)], "exact") == [Colour.GREEN, expected]
