# SPDX-License-Identifier: Apache-2.0
"""The RFCs' meters in exact fractions, written from the RFCs alone; simple rather than fast.

Tokens arrive continuously (a rate of r bytes/s gives r · t tokens in t seconds), which is the limit of the
RFCs' "incremented by one CIR times per second" that a meter without ticks implements.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Protocol


class Colour(IntEnum):
    """Colours, with v1model's numbers."""

    GREEN = 0
    YELLOW = 1
    RED = 2


class Meter(Protocol):
    """A meter; packets must be in order of time."""

    def colour(self, length_bytes: int, time_ns: int) -> Colour:
        """Colour a packet and take its tokens."""


@dataclass(frozen=True)
class Config:
    """Rates in bytes/s, bursts in bytes; ``pir``, ``pbs`` and ``ebs`` where the type of meter has them."""

    cir: int
    cbs: int
    pir: int = 0
    pbs: int = 0
    ebs: int = 0


def _seconds(elapsed_ns: int) -> Fraction:
    return Fraction(elapsed_ns, 1_000_000_000)


class TwoRateThreeColour:
    """RFC 2698, colour-blind mode."""

    def __init__(self, config: Config) -> None:
        """Section 3: the buckets are initially full."""
        self._config = config
        self._tc, self._tp = Fraction(config.cbs), Fraction(config.pbs)
        self._then_ns = 0

    def colour(self, length_bytes: int, time_ns: int) -> Colour:
        """Section 3: Tp and Tc grow with PIR and CIR up to PBS and CBS; then the packet is metered."""
        config, elapsed = self._config, _seconds(time_ns - self._then_ns)
        self._then_ns = time_ns
        self._tp = min(self._tp + config.pir * elapsed, Fraction(config.pbs))
        self._tc = min(self._tc + config.cir * elapsed, Fraction(config.cbs))
        # "If Tp(t)-B < 0, the packet is red, else
        if self._tp - length_bytes < 0:
            return Colour.RED
        # if Tc(t)-B < 0, the packet is yellow and Tp is decremented by B, else
        if self._tc - length_bytes < 0:
            self._tp -= length_bytes
            return Colour.YELLOW
        # the packet is green and both Tp and Tc are decremented by B."
        self._tp -= length_bytes
        self._tc -= length_bytes
        return Colour.GREEN


class SingleRateThreeColour:
    """RFC 2697, colour-blind mode."""

    def __init__(self, config: Config) -> None:
        """Section 3: the buckets are initially full."""
        self._config = config
        self._tc, self._te = Fraction(config.cbs), Fraction(config.ebs)
        self._then_ns = 0

    def colour(self, length_bytes: int, time_ns: int) -> Colour:
        """Section 3: tokens go to Tc while it is below CBS, else to Te while it is below EBS."""
        config, elapsed = self._config, _seconds(time_ns - self._then_ns)
        self._then_ns = time_ns
        arrived = config.cir * elapsed
        for_tc = min(arrived, config.cbs - self._tc)
        self._tc += for_tc
        self._te += min(arrived - for_tc, config.ebs - self._te)
        # "If Tc(t)-B >= 0, the packet is green and Tc is decremented by B down to the minimum of 0, else
        if self._tc - length_bytes >= 0:
            self._tc -= length_bytes
            return Colour.GREEN
        # if Te(t)-B >= 0, the packet is yellow and Te is decremented by B, else
        if self._te - length_bytes >= 0:
            self._te -= length_bytes
            return Colour.YELLOW
        # the packet is red and neither Tc nor Te is decremented."
        return Colour.RED


class SingleRateTwoColour:
    """P4Runtime's SINGLE_RATE_TWO_COLOR: one bucket, green while it conforms, else red."""

    def __init__(self, config: Config) -> None:
        """The bucket is initially full."""
        self._config = config
        self._tc = Fraction(config.cbs)
        self._then_ns = 0

    def colour(self, length_bytes: int, time_ns: int) -> Colour:
        """The bucket grows with CIR up to CBS; a packet that it holds takes its tokens."""
        config, elapsed = self._config, _seconds(time_ns - self._then_ns)
        self._then_ns = time_ns
        self._tc = min(self._tc + config.cir * elapsed, Fraction(config.cbs))
        if self._tc < length_bytes:
            return Colour.RED
        self._tc -= length_bytes
        return Colour.GREEN
