# SPDX-License-Identifier: Apache-2.0
"""Counts with their intervals, for tables on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir.analysis.statistics import Share


def share_text(found: Share) -> str:
    """In percent, with the exact 95 % interval; empty when nothing was counted."""
    if found.rate is None:
        return ""
    return f"{found.rate * 100:.0f} ({found.low * 100:.0f}–{found.high * 100:.0f})"
