# SPDX-License-Identifier: Apache-2.0
"""Random, repeatable arrivals of packets: times in ns and lengths in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

SHORTEST_BYTES, LONGEST_BYTES = 60, 9_014
"""Ethernet without FCS: the shortest frame, and one of 9000 bytes of MTU."""
DAY_NS = 86_400_000_000_000
YEAR_NS = 365 * DAY_NS

Arrivals = Iterator[tuple[int, int]]
"""Endless (time in ns, length in bytes), in order of time."""
Process = Callable[[Random, float], Arrivals]
"""Generates arrivals with a mean of about the second argument, in bytes/s."""


def length_bytes(random: Random) -> int:
    """Mostly acknowledgments and full 1,514-byte frames, sometimes any length."""
    kinds = (SHORTEST_BYTES, 1_514, random.randint(SHORTEST_BYTES, LONGEST_BYTES))
    return random.choices(kinds, weights=(3, 5, 2))[0]


def poisson(random: Random, rate: float) -> Arrivals:
    """Independent arrivals: exponential gaps."""
    time_ns = 0.0
    while True:
        length = length_bytes(random)
        time_ns += random.expovariate(1.0) * length / rate * 1e9
        yield int(time_ns), length


def on_off(random: Random, rate: float) -> Arrivals:
    """Bursts at 5 to 50 times the rate, with pauses that restore the mean."""
    time_ns = 0
    while True:
        speed_up, burst_bytes = random.uniform(5, 50), 0
        for _ in range(random.randint(1, 200)):
            length = length_bytes(random)
            burst_bytes += length
            yield time_ns, length
            time_ns += int(length / (rate * speed_up) * 1e9)
        time_ns += int(burst_bytes / rate * (1 - 1 / speed_up) * 1e9)


def back_to_back(random: Random, rate: float) -> Arrivals:
    """Back to back at a line rate of up to ten times the meter's, some at the same time."""
    time_ns, line = 0, rate * random.uniform(1, 10)
    while True:
        length = length_bytes(random)
        yield time_ns, length
        if random.random() > 0.05:
            time_ns += int(length / line * 1e9)


def long_gaps(random: Random, rate: float) -> Arrivals:
    """Trains of packets with pauses of a microsecond to 116 days."""
    time_ns = 0
    while True:
        for _ in range(random.randint(1, 50)):
            length = length_bytes(random)
            yield time_ns, length
            time_ns += int(random.expovariate(1.0) * length / rate * 0.5e9)
        time_ns += int(10 ** random.uniform(3, 16))


def whole_year(random: Random, rate: float) -> Arrivals:
    """Trains of packets spread over a year, the last one at its end."""
    trains = 60
    for train in range(trains + 1):
        time_ns = YEAR_NS * train // trains
        for _ in range(20):
            length = length_bytes(random)
            yield time_ns, length
            time_ns += int(random.expovariate(1.0) * length / rate * 0.5e9)
    yield from ((time_ns + at_ns, length) for at_ns, length in poisson(random, rate))


PROCESSES: tuple[Process, ...] = (poisson, on_off, back_to_back, long_gaps, whole_year)


def take(arrivals: Arrivals, count: int) -> list[tuple[int, int]]:
    """The first ``count`` arrivals."""
    return list(islice(arrivals, count))
