# SPDX-License-Identifier: Apache-2.0
"""One BBR and one CUBIC flow over a range of buffer sizes: figures 1, 3a, 3b, and the BBR flow's features.

I. U. Akgun et al., "Predicting Network Buffer Capacity for BBR Fairness", Stony Brook University.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import stats

from weir.analysis.features import NAMES
from weir.analysis.figures import Section, Table
from weir.analysis.figures.figure import Cell
from weir.campaign.outcome import Outcome
from weir.campaign.studies.buffers import buffer_bdp, buffer_figure, by_buffer, jain, jains, level, shares
from weir.campaign.studies.measured import measured
from weir.campaign.studies.runs import mean_or_none, rounded, share_percent, valid_of
from weir.campaign.studies.statements import Comparison, compare, comparison_section, numbers_of
from weir.rundir.directory import RunDirectory

PUBLISHED = numbers_of("buffer_class")
Runs = Sequence[Outcome]
SHOWN: Mapping[str, tuple[str, float]] = {
    "ack_interval_us": ("between ACKs, µs", 1),
    "bbr_min_rtt_us": ("BBR's RTT, ms", 1e3),
    "packets_in_flight": ("packets in flight", 1),
    "bbr_bandwidth_bps": ("BBR's bandwidth, Mbit/s", 1e6),
    "tcp_rtt_us": ("TCP's RTT, ms", 1e3),
}
"""Feature → its column heading on the page, and the divisor that converts it to the heading's unit."""


def sections(outcomes: Runs) -> tuple[Section, ...]:
    """The study's part of the page, from valid runs only."""
    valid = [outcome for outcome in valid_of(outcomes) if share_percent(outcome, "bbr") is not None]
    drawn = Section(
        "figures",
        "Figures 1 and 3",
        "The document shows these figures without numbers, so only ours are drawn.",
        (_share_figure(valid), _jain_figure(valid), _table(valid)) if valid else (),
    )
    features = Section(
        "features",
        "Features for a classifier",
        "The five features of section 2.2, of each run's BBR flow: medians; every sample is in the run's "
        "features.parquet, its class is the buffer.",
        (_features(valid),) if valid else (),
    )
    return comparison_section(PUBLISHED, _comparisons(valid), len(valid)), drawn, features


def _comparisons(valid: Runs) -> list[Comparison]:
    shallow = [outcome for outcome in valid if buffer_bdp(outcome) <= PUBLISHED["shallow_bdp"]]
    measures: dict[str, tuple[Callable[[Runs], float | None], Runs]] = {
        "unfair_shallow": (lambda runs: min(shares(runs, "bbr").values(), default=None), shallow),
        "unfair_deep": (_of_largest, valid),
        "shares_fall": (_correlation, valid),
        "least_jain": (_least_fair, valid),
    }
    return [compare(PUBLISHED, name, measured(of, runs)) for name, (of, runs) in measures.items()]


def _of_largest(runs: Runs) -> float | None:
    """BBR's share in the largest buffer, if it has more than one BDP."""
    by_size = shares(runs, "bbr")
    return by_size[max(by_size)] if by_size and max(by_size) > 1 else None


def _least_fair(runs: Runs) -> float | None:
    fairness = jains(runs)
    return min(fairness, key=lambda at: fairness[at]) if len(fairness) > 1 else None


def _correlation(runs: Runs) -> float | None:
    """Spearman's, of the buffer and BBR's share."""
    sizes = [buffer_bdp(outcome) for outcome in runs]
    its = [share_percent(outcome, "bbr") or 0.0 for outcome in runs]
    several = len(set(sizes)) > 2 and len(set(its)) > 1
    return float(stats.spearmanr(sizes, its).statistic) if several else None


def _share_figure(valid: Runs) -> Table:
    lines = {cc.upper(): shares(valid, cc) for cc in ("bbr", "cubic")}
    return buffer_figure(
        "figure-1",
        "Share of the bandwidth (figures 1 and 3a)",
        lines,
        "percent",
        marks={"even": level(valid, 50.0)},
    )


def _jain_figure(valid: Runs) -> Table:
    return buffer_figure(
        "figure-3b",
        "Jain's index of the two flows (figure 3b)",
        {"Jain's index": jains(valid)},
        "Jain's index",
        caption="Mean over the runs of each buffer; 0.5 if one flow gets everything.",
        marks={"all to one": level(valid, 0.5)},
    )


def _table(valid: Runs) -> Table:
    accuracy: Mapping[float, int] = dict(
        zip(PUBLISHED["buffers_bdp"], PUBLISHED["classifier_accuracy_percent"], strict=True)
    )
    rows: list[tuple[Cell, ...]] = []
    for at, its in by_buffer(valid).items():
        shares = [share_percent(outcome, "bbr") or 0.0 for outcome in its]
        rows.append(
            (
                *(at, len(its), rounded(mean_or_none(shares)), rounded(min(shares)), rounded(max(shares))),
                *(rounded(mean_or_none(map(jain, its)), 3), accuracy.get(at)),
            )
        )
    columns = (
        *("buffer, BDP", "runs", "BBR's share, %", "least", "largest", "Jain's index"),
        "published: accuracy of the classifier (table 1), %",
    )
    caption = "The document's only table is of its classifier; it gives no shares to compare with."
    return Table("shares", "Shares by buffer", caption, columns, tuple(rows))


def _features(valid: Runs) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for outcome in sorted(valid, key=buffer_bdp):
        path = RunDirectory(outcome.path).features
        if not path.is_file():
            continue
        table = pq.read_table(path)
        medians = [
            pc.quantile(table[name])[0].as_py() / SHOWN[name][1] if len(table) else None for name in NAMES
        ]
        rows.append((buffer_bdp(outcome), outcome.key, len(table), *(rounded(each, 2) for each in medians)))
    columns = ("buffer, BDP", "run", "samples", *(SHOWN[name][0] for name in NAMES))
    return Table("features", "Medians of the features", "", columns, tuple(rows))
