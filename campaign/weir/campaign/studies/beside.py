# SPDX-License-Identifier: Apache-2.0
"""A count of ours beside a published one: difference, exact interval, and whether chance explains it."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats

from weir.analysis.statistics import Share, share

LEVEL = 0.05
NOT_RUN, NOTHING_PUBLISHED, NO_DIFFERENCE = "not run", "nothing published", "no difference shown"


@dataclass(frozen=True)
class Beside:
    """Two counts; `difference` is in percentage points, ours − published, None where one is of nothing."""

    published: Share | None
    ours: Share
    difference: float | None
    p: float | None
    """Fisher's exact test of the two; None where one is of nothing."""

    @property
    def words(self) -> str:
        """What it comes to."""
        if not self.ours.of:
            return NOT_RUN
        if self.published is None or self.p is None:
            return NOTHING_PUBLISHED
        if self.p >= LEVEL:
            return NO_DIFFERENCE
        return "more than published" if (self.difference or 0) > 0 else "fewer than published"


def beside(count: int, of: int, published: tuple[int, int] | None) -> Beside:
    """Compare `count` of `of` with what was published, if anything was."""
    ours = share(count, of)
    if published is None:
        return Beside(None, ours, None, None)
    theirs = share(*published)
    if ours.rate is None or theirs.rate is None:
        return Beside(theirs, ours, None, None)
    table = [[count, of - count], [theirs.count, theirs.of - theirs.count]]
    p = float(stats.fisher_exact(table).pvalue)
    return Beside(theirs, ours, 100 * (ours.rate - theirs.rate), p)


def shown(counted: Share | None) -> str | None:
    """A count with its interval as a table's cell; None of nothing."""
    if counted is None or not counted.of:
        return None
    return f"{counted.count}/{counted.of} ({100 * counted.low:.0f}–{100 * counted.high:.0f} %)"
