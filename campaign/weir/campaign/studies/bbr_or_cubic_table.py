# SPDX-License-Identifier: Apache-2.0
"""One flow, BBR or CUBIC, under the eight conditions of a table, and the decision tree for them.

S. Kim, "TCP Congestion Control Algorithm: BBR vs Cubic", CSE310 project, Stony Brook University.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.analysis.figures import Figure, Section, Table, dot_figure
from weir.analysis.figures.figure import Cell
from weir.campaign.outcome import Outcome
from weir.campaign.studies.runs import Duel, duel_tree, duels, rounded, valid_of
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
    published = comparison_section(PUBLISHED, _comparisons(found), len(valid))
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


def _comparisons(found: Mapping[str, Duel]) -> list[Comparison]:
    rows = [found[one["row"]] for one in PUBLISHED["rows"] if one["row"] in found]
    for_bbr, for_cubic = found.get(PUBLISHED["bbr_case"]), found.get(PUBLISHED["cubic_case"])
    values = {
        "winners": _won_percent(rows),
        "bitrates": _near_percent(found),
        "bbr_case": None if for_bbr is None else for_bbr.bbr_mbps / for_bbr.cubic_mbps,
        "cubic_case": None if for_cubic is None else for_cubic.cubic_mbps / for_cubic.bbr_mbps,
        "loss": _won_percent(list(found.values())),
    }
    return [compare(PUBLISHED, name, value) for name, value in values.items()]


def _won_percent(rows: Sequence[Duel]) -> float | None:
    return 100 * sum(duel.winner == "BBR" for duel in rows) / len(rows) if rows else None


def _near_percent(found: Mapping[str, Duel]) -> float | None:
    """Percentage of the published bitrates, of rows that were run, that ours match within `near_factor`."""
    factor = PUBLISHED["near_factor"]
    ratios = [
        getattr(found[one["row"]], f"{cc}_mbps") / one[f"{cc}_mbps"]
        for one in PUBLISHED["rows"]
        if one["row"] in found
        for cc in CCS
    ]
    near = sum(1 / factor <= ratio <= factor for ratio in ratios)
    return 100 * near / len(ratios) if ratios else None


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
            for what in ("published", "ours", "difference", "ours ÷ published")
        ),
        *("published winner", "our winner"),
    )
    caption = (
        f"Mbit/s. {PUBLISHED['source']}, table; the last row is named in the text alone, without numbers."
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
