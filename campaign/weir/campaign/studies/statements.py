# SPDX-License-Identifier: Apache-2.0
"""What a study states, as data with its place in the document, held against what runs show."""

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
from weir.campaign.studies.runs import rounded


@dataclass(frozen=True)
class Held:
    """One statement of a study beside what the runs say about it."""

    says: str
    where: str
    published: float | None
    """The number that the document gives; None where it gives none."""
    unit: str
    measured: str
    """What our number is."""
    rule: str
    """When the two agree, in words."""
    ours: float | None
    agrees: bool | None
    """None where nothing was run that could tell."""

    @property
    def difference(self) -> float | None:
        """Ours − published; None without one of the two."""
        return None if self.ours is None or self.published is None else self.ours - self.published

    @property
    def verdict(self) -> str:
        """Whether they agree, in a word or two."""
        return {True: "agrees", False: "does not agree", None: "not run"}[self.agrees]


def numbers_of(study: str) -> Mapping[str, Any]:
    """The numbers of a study: `<study>.json` beside this file."""
    text = (importlib.resources.files("weir.campaign.studies") / f"{study}.json").read_text(encoding="utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


def hold(study: Mapping[str, Any], name: str, ours: float | None) -> Held:
    """Hold a statement of the study's file against our number, None where nothing was run.

    NaN is a number that the runs should have shown and did not: it agrees with nothing. The statement's
    `rule` is above or below (its `bound`, else its number), within a `tolerance` of it, or of a factor.
    """
    said = study["statements"][name]
    number: float | None = said.get("value")
    words, low, high = _range(said["rule"], said.get("bound", number), said.get("tolerance", 0.0))
    agrees = None if ours is None else low <= ours <= high
    shown = None if ours is None or math.isnan(ours) else ours
    return Held(said["says"], said["where"], number, said["unit"], said["ours"], words, shown, agrees)


def _range(rule: str, bound: float, tolerance: float) -> tuple[str, float, float]:
    """What agrees, in words, and its ends; raises ValueError for a rule that there is not."""
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


def beside_section(study: Mapping[str, Any], held: Sequence[Held], runs: int) -> Section:
    """The section that sets every statement beside ours, with a line in words."""
    rows: list[tuple[Cell, ...]] = [
        (
            *(one.says, one.verdict, one.published, rounded(one.ours, 3), rounded(one.difference, 3)),
            *(one.unit, one.rule, one.measured, one.where),
        )
        for one in held
    ]
    columns = (
        *("published", "in a word", "its number", "our number", "difference", "unit"),
        *("agrees if", "what ours is", "where it says so"),
    )
    caption = f"{study['source']}. {study['remark']}"
    table = Table("statements", "What is published, and what these runs say", caption, columns, tuple(rows))
    return Section("published", "Beside what is published", in_words(study, held, runs), (table,))


def in_words(study: Mapping[str, Any], held: Sequence[Held], runs: int) -> str:
    """One line of plain words: what agrees, what does not, what was not run, what differs in the setup."""
    if not runs:
        return "No valid run yet, so there is nothing to compare."
    known = [one for one in held if one.agrees is not None]
    groups = (
        ("Agree", [one for one in known if one.agrees]),
        ("Do not agree", [one for one in known if not one.agrees]),
        ("Not run", [one for one in held if one.agrees is None]),
    )
    agree = len(groups[0][1])
    sentences = [
        f"Of {len(known)} published statements that {runs} valid runs can tell about, {agree} agree."
    ]
    sentences += [f"{name}: {'; '.join(map(_briefly, its))}." for name, its in groups if its]
    return " ".join([*sentences, study["differs"]])


def _briefly(one: Held) -> str:
    if one.agrees is None:
        return one.says
    if one.ours is None:
        return f"{one.says} (not seen here)"
    theirs = "" if one.published is None else f"published {one.published:g}, "
    return f"{one.says} ({theirs}ours {plain(one.ours)} {one.unit})"
