# SPDX-License-Identifier: Apache-2.0
"""Compares a measured count with a published one: difference, exact intervals, Fisher's exact test."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats

from weir.analysis.statistics import Share, share

LEVEL = 0.05
NOT_RUN, NOTHING_PUBLISHED, NO_DIFFERENCE = "not run", "nothing published", "no difference shown"


@dataclass(frozen=True)
class CountComparison:
    """Two counts. `difference` is ours − published in percentage points; None if one has no trials."""

    published: Share | None
    ours: Share
    difference: float | None
    p: float | None
    """Two-sided p of Fisher's exact test; None if one has no trials."""

    @property
    def verdict(self) -> str:
        """The result of the comparison as text."""
        if not self.ours.of:
            return NOT_RUN
        if self.published is None or self.p is None:
            return NOTHING_PUBLISHED
        if self.p >= LEVEL:
            return NO_DIFFERENCE
        return "more than published" if (self.difference or 0) > 0 else "fewer than published"


def compare_counts(count: int, of: int, published: tuple[int, int] | None) -> CountComparison:
    """Compare `count` of `of` with the published (count, of); None if nothing was published."""
    ours = share(count, of)
    if published is None:
        return CountComparison(None, ours, None, None)
    theirs = share(*published)
    if ours.rate is None or theirs.rate is None:
        return CountComparison(theirs, ours, None, None)
    table = [[count, of - count], [theirs.count, theirs.of - theirs.count]]
    p = float(stats.fisher_exact(table).pvalue)
    return CountComparison(theirs, ours, 100 * (ours.rate - theirs.rate), p)


def shown(counted: Share | None) -> str | None:
    """A count with its interval in percent, as a table cell; None without trials."""
    if counted is None or not counted.of:
        return None
    return f"{counted.count}/{counted.of} ({100 * counted.low:.0f}–{100 * counted.high:.0f} %)"
