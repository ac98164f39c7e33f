# SPDX-License-Identifier: Apache-2.0
"""The offset of a host's clock from that of this machine, from questions and answers over the connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ClockOffset:
    """The host's clock minus this machine's; wrong by at most ``error_ns``, half the round trip."""

    offset_ns: int
    rtt_ns: int

    @property
    def error_ns(self) -> int:
        """Half the round trip: the two ways may take different times, but neither less than none."""
        return self.rtt_ns // 2


def offset_of(exchanges: Sequence[tuple[int, int, int]]) -> ClockOffset:
    """The offset by the exchange with the least round trip, as in RFC 5905, section 10 (clock filter).

    Each is (asked, answered, received) in ns: the first and last by this machine's clock, the second by the
    host's. The sequence is not empty.
    """
    asked, answered, received = min(exchanges, key=lambda exchange: exchange[2] - exchange[0])
    return ClockOffset(answered - (asked + received) // 2, received - asked)


@dataclass(frozen=True)
class ClockReading:
    """The offset of a host's clock at a moment of this machine's, in ns."""

    at_ns: int
    offset: ClockOffset
