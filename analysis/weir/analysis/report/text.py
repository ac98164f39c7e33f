# SPDX-License-Identifier: Apache-2.0
"""Formats numbers with their units for the page and the terminal; a missing value is an en dash."""

from __future__ import annotations

import math

MISSING = "–"


def plain(value: float, digits: int = 3) -> str:
    """At least `digits` significant digits, all digits before the point, no exponent: 1,788."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    for factor, unit in steps:
        # 999.6 k would print as "1,000 k": take the next unit where rounding reaches it.
        if abs(value) >= factor * 0.9995:
            return f"{plain(value / factor)} {unit}"
    return f"{plain(value)} {steps[-1][1]}"


def count(value: int | None) -> str:
    """Packets and other whole numbers: 4,123."""
    return MISSING if value is None else f"{value:,}"


def rate(bps: float | None) -> str:
    """Bits per second: 39.9 Mbit/s."""
    if bps is None or not math.isfinite(bps):
        return MISSING
    return _scaled(bps, ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")))


def size(value: float | None) -> str:
    """Bytes, decimal units as in configurations: 100 kB."""
    if value is None or not math.isfinite(value):
        return MISSING
    return _scaled(value, ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")))


def duration(seconds: float | None) -> str:
    """Times: 20.1 ms."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds == 0:
        return "0 s"
    return _scaled(seconds, ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")))


def percent(value: float | None, decimals: int = 2) -> str:
    """A value that is already in percent: 0.41 %."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.{decimals}f} %"


def share(value: float | None, decimals: int = 1) -> str:
    """A ratio of 0 to 1 as percent: 11.2 %."""
    return MISSING if value is None else percent(value * 100, decimals)


def quality(value: float | None) -> str:
    """Precision and recall: never rounded up to 1."""
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value:.0f}" if value in (0, 1) else f"{math.floor(value * 10_000) / 10_000:.4f}"


FILTERS = {
    "count": count,
    "rate": rate,
    "size": size,
    "duration": duration,
    "percent": percent,
    "share": share,
    "quality": quality,
}
