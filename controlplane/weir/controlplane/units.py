# SPDX-License-Identifier: Apache-2.0
"""Parses rates, sizes, times and shares with units ("40 Mbit/s") into exact integers, and formats them.

All arithmetic is decimal and exact: a rate is an integer of bit/s, a size of bytes, a time of nanoseconds. A
text with a fraction of them (``0.5 B``) is an error, not rounded. A number without a unit is an error too:
tools disagree on what a bare number means, and a factor of eight or 1000 goes unnoticed in a result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

RATE_UNITS: Mapping[str, int] = {
    "bit/s": 1,
    "kbit/s": 10**3,
    "Mbit/s": 10**6,
    "Gbit/s": 10**9,
    "Tbit/s": 10**12,
}
"""bit/s per unit; decimal prefixes, as in the names of link speeds."""

SIZE_UNITS: Mapping[str, int] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
"""bytes per unit; k, M, G are powers of 1000, Ki, Mi, Gi of 1024 (IEC 80000-13)."""

TIME_UNITS: Mapping[str, int] = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
"""nanoseconds per unit."""

SHARE_UNITS: Mapping[str, int] = {"%": 10**7, "ppm": 10**3, "ppb": 1}
"""billionths per unit."""

_QUANTITY = re.compile(r"\s*(?P<number>[+-]?\d+(?:\.\d+)?)\s*(?P<unit>[^\d\s.].*?)?\s*")
LARGEST = 2**63 - 1
"""The largest quantity: P4Runtime carries rates, bursts and times as int64."""


class UnitError(ValueError):
    """A quantity that cannot be read; the message says what is wrong and which units are valid."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One kind of quantity: its name, its units, its base unit, and an example for messages."""

    noun: str
    units: Mapping[str, int]
    base: str
    example: str

    def parse(self, text: object) -> int:
        """Read ``text`` as an exact integer of the base unit.

        Raises:
            UnitError: no number, no unit, an unknown unit, a negative value, not a whole number of the base
                unit, or more than 2^63 - 1 of it.
        """
        if isinstance(text, bool) or not isinstance(text, str | int | float | Decimal):
            raise UnitError(f"{_shown(text)} is not a {self.noun}; {self.valid}")
        match = _QUANTITY.fullmatch(str(text))
        if match is None:
            raise UnitError(f"{_shown(text)} is not a {self.noun}; {self.valid}")
        number, unit = match["number"], match["unit"]
        if unit is None:
            raise UnitError(f"{number} has no unit; {self.valid}")
        if unit not in self.units:
            raise UnitError(f"unknown unit {unit!r} of a {self.noun}{self._hint(unit)}; {self.valid}")
        value = Decimal(number) * self.units[unit]
        if value < 0:
            raise UnitError(f"{_shown(text)} is negative; {self.valid}")
        if value != value.to_integral_value():
            raise UnitError(
                f"{_shown(text)} is not a whole number of {self.base}; valid: a multiple of 1 {self.base}"
            )
        if value > LARGEST:
            raise UnitError(f"{_shown(text)} is too large; valid: at most {LARGEST} {self.base}")
        return int(value)

    def format(self, value: int) -> str:
        """Write ``value`` in the largest unit that needs at most three decimals; ``parse`` reads it back."""
        for unit, factor in sorted(self.units.items(), key=lambda item: -item[1]):
            if factor & (factor - 1) == 0 and factor != 1:
                continue  # decimal units only: 65,536 B reads better as 65.536 kB beside rates
            if unit != "min" and value >= factor and value * 1000 % factor == 0:
                return f"{(Decimal(value) / factor).normalize():f} {unit}"
        return f"{value} {self.base}"

    @property
    def valid(self) -> str:
        """The end of every error message: the units and an example."""
        return f"valid: {', '.join(self.units)}, such as {self.example!r}"

    @property
    def pattern(self) -> str:
        """A regular expression of the valid texts, for JSON Schema."""
        return rf"^\s*\d+(\.\d+)?\s*({'|'.join(self.units)})\s*$"

    def _hint(self, unit: str) -> str:
        folded = [known for known in self.units if known.lower() == unit.lower()]
        return f" (did you mean {' or '.join(folded)}?)" if folded else ""


RATE = Dimension("rate", RATE_UNITS, "bit/s", "40 Mbit/s")
SIZE = Dimension("size", SIZE_UNITS, "B", "100 kB")
TIME = Dimension("time", TIME_UNITS, "ns", "20 ms")
SHARE = Dimension("share", SHARE_UNITS, "ppb", "0.1 %")


def parse_rate(text: object) -> int:
    """Read a rate as bit/s; raises :class:`UnitError`."""
    return RATE.parse(text)


def parse_size(text: object) -> int:
    """Read a size as bytes; raises :class:`UnitError`."""
    return SIZE.parse(text)


def parse_time(text: object) -> int:
    """Read a time as nanoseconds; raises :class:`UnitError`."""
    return TIME.parse(text)


def parse_share(text: object) -> int:
    """Read a share of a whole as billionths; raises :class:`UnitError`, also above 100 %."""
    share_ppb = SHARE.parse(text)
    if share_ppb > 10**9:
        raise UnitError(f"{_shown(text)} is more than all; valid: 0 % to 100 %")
    return share_ppb


def format_rate(rate_bps: int) -> str:
    """Write a rate in bit/s with its best unit, exactly."""
    return RATE.format(rate_bps)


def format_size(size_bytes: int) -> str:
    """Write a size in bytes with its best unit, exactly."""
    return SIZE.format(size_bytes)


def format_time(time_ns: int) -> str:
    """Write a time in nanoseconds with its best unit, exactly."""
    return TIME.format(time_ns)


def format_share(share_ppb: int) -> str:
    """Write a share in billionths as per cent, exactly."""
    return f"{(Decimal(share_ppb) / SHARE_UNITS['%']).normalize():f} %"


@dataclass(frozen=True, slots=True)
class Burst:
    """The depth of a token bucket: a size, or the time in which its rate fills it. Exactly one is set."""

    size_bytes: int | None = None
    time_ns: int | None = None

    def bytes_at(self, rate_bps: int) -> int:
        """The depth in bytes of a bucket that fills at ``rate_bps``, to the nearest byte."""
        if self.size_bytes is not None:
            return self.size_bytes
        if self.time_ns is None:
            raise UnitError("a burst is a size or a time, and this one is neither")
        bits_times_ns, per_byte = rate_bps * self.time_ns, 8 * 10**9
        return (2 * bits_times_ns + per_byte) // (2 * per_byte)

    def __str__(self) -> str:
        """The burst as a config writes it."""
        return format_size(self.size_bytes) if self.size_bytes is not None else format_time(self.time_ns or 0)


def parse_burst(text: object) -> Burst:
    """Read a burst, a size ("100 kB") or a time at the bucket's rate ("20 ms"); raises :class:`UnitError`."""
    times, sizes = ", ".join(TIME_UNITS), ", ".join(SIZE_UNITS)
    valid = f"valid: a time ({times}) at the rate, or a size ({sizes}), such as '20 ms'"
    match = _QUANTITY.fullmatch(str(text))
    if isinstance(text, bool) or match is None:
        raise UnitError(f"{_shown(text)} is not a burst; {valid}")
    if match["unit"] is None:
        raise UnitError(f"{match['number']} has no unit; {valid}")
    if match["unit"] in TIME_UNITS:
        return Burst(time_ns=parse_time(text))
    if match["unit"] in SIZE_UNITS:
        return Burst(size_bytes=parse_size(text))
    raise UnitError(f"unknown unit {match['unit']!r} of a burst; {valid}")


@dataclass(frozen=True, slots=True)
class Depth:
    """The size of a queue, in one of four ways.

    `value` is bytes for a "size", nanoseconds at the queue's rate for a "time", millionths of the token
    bucket's burst for "bursts", and millionths of rate × base round-trip time for "bdps".
    """

    kind: Literal["size", "time", "bursts", "bdps"]
    value: int

    def bytes_at(self, rate_bps: int, burst_bytes: int | None, rtt_ns: int | None) -> int:
        """The depth rounded to the nearest byte.

        Raises:
            UnitError: it is in bursts or BDPs, and ``burst_bytes`` or ``rtt_ns`` is not known.
        """
        match self.kind:
            case "size":
                return self.value
            case "time":
                return Burst(time_ns=self.value).bytes_at(rate_bps)
            case "bursts" if burst_bytes is not None:
                return (2 * self.value * burst_bytes + _MILLION) // (2 * _MILLION)
            case "bdps" if rtt_ns is not None:
                bits, per_byte = rate_bps * rtt_ns * self.value, 8 * 10**9 * _MILLION
                return (2 * bits + per_byte) // (2 * per_byte)
        raise UnitError(f"{self}: the burst or the round-trip time is not known")

    def __str__(self) -> str:
        """The depth as a config writes it."""
        if self.kind == "size":
            return format_size(self.value)
        if self.kind == "time":
            return format_time(self.value)
        unit = "burst" if self.kind == "bursts" else "BDP"
        return f"{(Decimal(self.value) / _MILLION).normalize():f} {unit}"


_MILLION = 10**6
_MULTIPLE = Dimension("multiple", {"burst": _MILLION, "BDP": _MILLION}, "millionth", "2 BDP")


def parse_depth(text: object) -> Depth:
    """Read a depth: a size, a time at the queue's rate, or bursts or BDPs; raises :class:`UnitError`."""
    valid = (
        f"valid: a size ({', '.join(SIZE_UNITS)}), a time ({', '.join(TIME_UNITS)}) at the rate, burst or "
        "BDP, such as '2 BDP'"
    )
    match = _QUANTITY.fullmatch(str(text))
    if isinstance(text, bool) or match is None:
        raise UnitError(f"{_shown(text)} is not a depth of a queue; {valid}")
    unit = match["unit"]
    if unit is None:
        raise UnitError(f"{match['number']} has no unit; {valid}")
    if unit in SIZE_UNITS:
        return Depth("size", parse_size(text))
    if unit in TIME_UNITS:
        return Depth("time", parse_time(text))
    if unit in _MULTIPLE.units:
        return Depth("bursts" if unit == "burst" else "bdps", _MULTIPLE.parse(text))
    raise UnitError(f"unknown unit {unit!r} of a queue's depth; {valid}")


DEPTH_PATTERN = rf"({SIZE.pattern})|({TIME.pattern})|({_MULTIPLE.pattern})"


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)
