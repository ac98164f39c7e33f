# SPDX-License-Identifier: Apache-2.0
"""One flow, BBR or CUBIC, under the eight conditions of a table, and the decision tree for them.

S. Kim, "TCP Congestion Control Algorithm: BBR vs Cubic", CSE310 project, Stony Brook University.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.analysis.figures import Figure, Section, Table, dot_figure
from weir.analysis.figures.figure import Cell
from weir.analysis.statistics import Share, share
from weir.campaign.outcome import Outcome
from weir.campaign.studies.measured import (
    INTERVAL,
    INTERVAL_CAPTION,
    counted,
    interval_cells,
    measured,
)
from weir.campaign.studies.runs import Duel, duel_tree, duels, label, rounded, valid_of, won
from weir.campaign.studies.statements import Comparison, compare, comparison_section, numbers_of
from weir.controlplane.units import parse_share, parse_size, parse_time

PUBLISHED = numbers_of("bbr_or_cubic_table")
CCS = ("bbr", "cubic")


def sections(outcomes: Sequence[Outcome]) -> tuple[Section, ...]:
    """The study's part of the page, from valid runs only."""
    valid = valid_of(outcomes)
    found = {duel.cell["row"]: duel for duel in duels(valid)}
    drawn = Section(
        "table",
        "The table",
        "Bitrates of one flow alone, medians over the runs, beside the document's.",
        (*(_figure(cc, found) for cc in CCS if found), _table(found)),
    )
    tree = Section(
        "table-tree",
        "BBR or CUBIC: the decision tree",
        "Grown from the winners of our runs. The document's tree is a picture without text, and BBR wins all "
        "of its eight rows, which would make a tree of one leaf.",
        duel_tree(
            [conditions(duel) for duel in found.values()],
            [duel.winner for duel in found.values()],
            "table-tree",
            "Who wins",
        ),
    )
    published = comparison_section(PUBLISHED, _comparisons(valid, found), len(valid))
    return published, drawn, tree


def conditions(duel: Duel) -> Mapping[str, float]:
    """The conditions of a row's label as numbers; the bandwidth is the runs' one, not the label's."""
    delay, buffer, loss, _ = duel.cell["row"].split(", ")
    return {
        "delay, ms": parse_time(delay) / 1e6,
        "buffer, kB": parse_size(buffer) / 1e3,
        "loss, %": parse_share(loss) / 1e7,
        "bandwidth, Mbit/s": duel.rate_mbps,
    }


def _comparisons(valid: Sequence[Outcome], found: Mapping[str, Duel]) -> list[Comparison]:
    rows = [found[one["row"]] for one in PUBLISHED["rows"] if one["row"] in found]
    values = {
        "winners": counted(won(rows, "BBR")),
        "bitrates": counted(_near(found)),
        "bbr_case": measured(_bbr_to_cubic, _of_row(valid, PUBLISHED["bbr_case"])),
        "cubic_case": measured(
            lambda runs: None if (ratio := _bbr_to_cubic(runs)) is None else 1 / ratio,
            _of_row(valid, PUBLISHED["cubic_case"]),
        ),
        "loss": counted(won(list(found.values()), "BBR")),
    }
    return [compare(PUBLISHED, name, value) for name, value in values.items()]


def _of_row(valid: Sequence[Outcome], row: str) -> list[Outcome]:
    return [outcome for outcome in valid if label(outcome, "row") == row]


def _bbr_to_cubic(runs: Sequence[Outcome]) -> float | None:
    """BBR's goodput ÷ CUBIC's in the runs of one row."""
    return next((duel.bbr_mbps / duel.cubic_mbps for duel in duels(runs)), None)


def _near(found: Mapping[str, Duel]) -> Share:
    """How many of the published bitrates, of rows that were run, ours match within `near_factor`."""
    factor = PUBLISHED["near_factor"]
    ratios = [
        getattr(found[one["row"]], f"{cc}_mbps") / one[f"{cc}_mbps"]
        for one in PUBLISHED["rows"]
        if one["row"] in found
        for cc in CCS
    ]
    return share(sum(1 / factor <= ratio <= factor for ratio in ratios), len(ratios))


def _table(found: Mapping[str, Duel]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    named = {one["row"]: one for one in PUBLISHED["rows"]}
    for row in [*named, *(row for row in found if row not in named)]:
        published, duel = named.get(row), found.get(row)
        cells: list[Cell] = [row, duel.rate_mbps if duel else None]
        for cc in CCS:
            theirs: float | None = published[f"{cc}_mbps"] if published else None
            ours: float | None = getattr(duel, f"{cc}_mbps") if duel else None
            cells += [
                *(theirs, rounded(ours, 3)),
                *interval_cells(getattr(duel, f"{cc}_interval") if duel else None),
                rounded(ours - theirs, 3) if ours is not None and theirs is not None else None,
                rounded(ours / theirs, 2) if ours is not None and theirs is not None else None,
            ]
        winner = None
        if published is not None:
            winner = "BBR" if published["bbr_mbps"] > published["cubic_mbps"] else "CUBIC"
        rows.append((*cells, winner, duel.winner if duel else None))
    columns = (
        *("delay, buffer, loss, bandwidth", "our Mbit/s"),
        *(
            f"{cc.upper()} {what}"
            for cc in CCS
            for what in ("published", "ours", *INTERVAL, "difference", "ours ÷ published")
        ),
        *("published winner", "our winner"),
    )
    caption = (
        f"Mbit/s. {PUBLISHED['source']}, table; the last row is named in the text alone, without numbers. "
        f"{INTERVAL_CAPTION}"
    )
    return Table("rows", "Row by row", caption, columns, tuple(rows))


def _figure(cc: str, found: Mapping[str, Duel]) -> Figure:
    ours = {row: getattr(duel, f"{cc}_mbps") for row, duel in found.items()}
    theirs = {one["row"]: one[f"{cc}_mbps"] for one in PUBLISHED["rows"]}
    return dot_figure(
        f"table-{cc}",
        f"{cc.upper()}: published and ours",
        "Mbit/s, on a logarithmic axis.",
        {"published": theirs, "ours": ours},
        unit="Mbit/s",
        log=True,
    )
