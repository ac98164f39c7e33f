# SPDX-License-Identifier: Apache-2.0
"""Compares the statements of a study, stored as JSON with their section or page, with the runs' numbers."""

from __future__ import annotations

import importlib.resources
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.analysis.figures import Section, Table
from weir.analysis.figures.figure import Cell
from weir.analysis.report.text import plain
from weir.analysis.statistics import Interval
from weir.campaign.studies.measured import INTERVAL, INTERVAL_CAPTION, Measured, interval_cells
from weir.campaign.studies.runs import rounded
from weir.rundir.plural import plural


@dataclass(frozen=True)
class Comparison:
    """One statement of a study and the runs' number for it."""

    says: str
    where: str
    published: float | None
    """The number in the document; None if it gives none."""
    unit: str
    measured: str
    """Description of our number."""
    rule: str
    """The condition of agreement, as text."""
    ours: float | None
    interval: Interval | None
    """That of `ours`; None if there is one repeat of what it is measured by."""
    agrees: bool | None
    """None if no run measured it."""

    @property
    def difference(self) -> float | None:
        """Ours − published; None if one of the two is missing."""
        return None if self.ours is None or self.published is None else self.ours - self.published

    @property
    def verdict(self) -> str:
        """`agrees` as text."""
        return {True: "agrees", False: "does not agree", None: "not run"}[self.agrees]


def numbers_of(study: str) -> Mapping[str, Any]:
    """The numbers of a study: `<study>.json` beside this file."""
    text = (importlib.resources.files("weir.campaign.studies") / f"{study}.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def compare(study: Mapping[str, Any], name: str, ours: Measured | None) -> Comparison:
    """Compare a statement of the study's file with our number; `ours` is None if nothing was run.

    A value of NaN means that the runs did not show the stated effect; it never agrees. The statement's
    `rule` is `above` or `below` its `bound` (by default its value), `within` a relative `tolerance` of it,
    or a `factor`.
    """
    statement = study["statements"][name]
    value: float | None = statement.get("value")
    bound, tolerance = statement.get("bound", value), statement.get("tolerance", 0.0)
    rule, low, high = _range(statement["rule"], bound, tolerance)
    return Comparison(
        says=statement["says"],
        where=statement["where"],
        published=value,
        unit=statement["unit"],
        measured=statement["ours"],
        rule=rule,
        ours=None if ours is None or math.isnan(ours.value) else ours.value,
        interval=None if ours is None else ours.interval,
        agrees=None if ours is None else low <= ours.value <= high,
    )


def _range(rule: str, bound: float, tolerance: float) -> tuple[str, float, float]:
    """The range of agreement as text, with its lower and upper end; raises ValueError for an unknown rule."""
    match rule:
        case "above":
            return f"above {bound:g}", math.nextafter(bound, math.inf), math.inf
        case "below":
            return f"below {bound:g}", -math.inf, math.nextafter(bound, -math.inf)
        case "within":
            return f"within {100 * tolerance:g} %", bound * (1 - tolerance), bound * (1 + tolerance)
        case "factor":
            return f"within a factor of {tolerance:g}", bound / tolerance, bound * tolerance
    raise ValueError(f"no rule {rule!r}; valid: above, below, within, factor")


def comparison_section(study: Mapping[str, Any], comparisons: Sequence[Comparison], runs: int) -> Section:
    """The section with a table of all statements and a summary of the comparison."""
    rows: list[tuple[Cell, ...]] = [
        (
            *(one.says, one.verdict, one.published, rounded(one.ours, 3), *interval_cells(one.interval)),
            *(rounded(one.difference, 3), one.unit, one.rule, one.measured, one.where),
        )
        for one in comparisons
    ]
    columns = (
        *("published", "in a word", "its number", "our number", *INTERVAL, "difference", "unit"),
        *("agrees if", "what ours is", "where it says so"),
    )
    caption = f"{study['source']}. {study['remark']} {INTERVAL_CAPTION}"
    table = Table("statements", "What is published, and what these runs say", caption, columns, tuple(rows))
    return Section("published", "Beside what is published", summary(study, comparisons, runs), (table,))


def summary(study: Mapping[str, Any], comparisons: Sequence[Comparison], runs: int) -> str:
    """One paragraph: which statements agree, which do not, which were not run, and how the setup differs."""
    if not runs:
        return "No valid run yet, so there is nothing to compare."
    known = [one for one in comparisons if one.agrees is not None]
    groups = (
        ("Agree", [one for one in known if one.agrees]),
        ("Do not agree", [one for one in known if not one.agrees]),
        ("Not run", [one for one in comparisons if one.agrees is None]),
    )
    agree = len(groups[0][1])
    sentences = [
        f"Of {plural(len(known), 'published statement')} that {plural(runs, 'valid run')} can tell about, "
        f"{agree} agree."
    ]
    sentences += [f"{name}: {'; '.join(map(_briefly, its))}." for name, its in groups if its]
    return " ".join([*sentences, study["differs"]])


def _briefly(one: Comparison) -> str:
    if one.agrees is None:
        return one.says
    if one.ours is None:
        return f"{one.says} (not seen here)"
    theirs = "" if one.published is None else f"published {one.published:g}, "
    ends = "" if one.interval is None else f", {plain(one.interval.low)} to {plain(one.interval.high)}"
    return f"{one.says} ({theirs}ours {plain(one.ours)} {one.unit}{ends})"
