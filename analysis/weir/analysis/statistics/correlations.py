# SPDX-License-Identifier: Apache-2.0
"""Chooses one coefficient for a pair from those of many interval sizes."""

from __future__ import annotations

from collections.abc import Sequence

LEVEL = 0.05


def best_correlation(
    coefficients: Sequence[float | None], ps: Sequence[float | None] | None = None, level: float = LEVEL
) -> float | None:
    """The highest coefficient with p below the level, else the highest of all; None without coefficients.

    M. Rimkevičius, "Localizing Traffic Differentiation with TCP BBR", EPFL 2024: section 5 for loss; section
    6, without `ps`, for throughput ("no matter the p-value").
    """
    if ps is not None and len(ps) != len(coefficients):
        raise ValueError(f"{len(coefficients)} coefficients and {len(ps)} p-values; each needs one")
    known = [value for value in coefficients if value is not None]
    significant = [
        value
        for value, p in zip(coefficients, ps or (), strict=False)
        if value is not None and p is not None and p < level
    ]
    return max(significant or known, default=None)
