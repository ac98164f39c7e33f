# SPDX-License-Identifier: Apache-2.0
"""BBR-ML: a classifier names the bottleneck's buffer, and BBR's cwnd_gain follows it: table 1, figure 3.

I. U. Akgun et al., "Predicting Network Buffer Capacity for BBR Fairness", Stony Brook University. The
campaign's part `gains` has fixed gains, of which 200 % is unchanged BBR; in `tuned`, `other path` and
`latency` tuners set the gain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from weir.analysis.classifier.network import read_classifier
from weir.analysis.figures import Section, Table, heat_figure
from weir.analysis.figures.figure import Cell
from weir.analysis.statistics import HeatMap, Share, share
from weir.campaign.outcome import Outcome
from weir.campaign.studies.beside import shown
from weir.campaign.studies.buffers import buffer_bdp, buffer_figure, by_buffer, jain, jains, level, shares
from weir.campaign.studies.measured import counted, measured
from weir.campaign.studies.runs import (
    goodputs_mbps,
    label,
    mean_or_none,
    rounded,
    share_percent,
    valid_of,
)
from weir.campaign.studies.statements import Comparison, compare, comparison_section, numbers_of
from weir.rundir.directory import RunDirectory

PUBLISHED = numbers_of("bbr_ml")
UNCHANGED, TUNED = "unchanged", "BBR-ML"
LINUX_GAIN = "200"
SHALLOW_BDP, DEEP_BDP = 0.08, 1.28
Runs = Sequence[Outcome]


@dataclass(frozen=True)
class Decisions:
    """How many decisions of tuners named which buffer."""

    named: Mapping[str, int]
    of: str
    """The buffer that there was."""

    @property
    def right(self) -> Share:
        """Those that named the right one."""
        return share(self.named.get(self.of, 0), sum(self.named.values()))


def sections(outcomes: Runs) -> tuple[Section, ...]:
    """The study's part of the page, from valid runs only."""
    valid = [outcome for outcome in valid_of(outcomes) if share_percent(outcome, "bbr") is not None]
    gains = _by_axis(valid, "gains", "gain")
    paper = {UNCHANGED: gains.get(LINUX_GAIN, []), **_by_axis(valid, "tuned", "tuning")}
    paper = {name: runs for name, runs in paper.items() if runs}
    other = _by_axis(valid, "other path", "tuning")
    return (
        comparison_section(PUBLISHED, _comparisons(gains, paper), len(valid)),
        _classifier(paper, "table-1", "The classifier (table 1)", True),
        _fairness(paper, "figure-3", "Fairness (figures 3a and 3b)"),
        _of_gains(gains),
        _fairness(other, "other", "Another rate and RTT, of which the classifier saw nothing"),
        _classifier(other, "other-decisions", "The classifier on another rate and RTT", False),
        _latency(valid, paper.get(TUNED, [])),
    )


def _by_axis(valid: Runs, part: str, axis: str) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = {}
    for outcome in valid_of(valid, part):
        found.setdefault(label(outcome, axis), []).append(outcome)
    return found


def decisions_of(runs: Runs) -> dict[float, Decisions]:
    """Buffer in BDP → what the tuners of the runs named."""
    found: dict[float, Decisions] = {}
    for at, its in by_buffer(runs).items():
        named: dict[str, int] = {}
        for outcome in its:
            path = RunDirectory(outcome.path).tuning
            for predicted in pq.read_table(path)["predicted"].to_pylist() if path.is_file() else ():
                named[predicted] = named.get(predicted, 0) + 1
        if named:
            found[at] = Decisions(named, label(its[0], "buffer"))
    return found


def _comparisons(gains: Mapping[str, Runs], paper: Mapping[str, Runs]) -> list[Comparison]:
    unchanged, tuned = (paper.get(name, []) for name in (UNCHANGED, TUNED))
    both = [*unchanged, *tuned]
    fixed = [outcome for runs in gains.values() for outcome in runs]
    several = len(gains) > 1
    values = {
        "accuracy": counted(_validated(tuned)),
        "accuracy_table": measured(_right_percent, tuned),
        "deep_classes": measured(
            _right_percent, [outcome for outcome in tuned if buffer_bdp(outcome) >= DEEP_BDP]
        ),
        "gain": measured(lambda runs: max(_better(runs).values(), default=None), both),
        "gain_shallow": measured(_most_improved, both),
        "gap_shallow": measured(lambda runs: _gap_reduction(runs, lambda at: at <= SHALLOW_BDP), both),
        "gap_deep": measured(lambda runs: _gap_reduction(runs, lambda at: at >= DEEP_BDP), both),
        "shallow_gain_lower": measured(lambda runs: _fairest(runs, min), fixed) if several else None,
        "deep_gain_higher": measured(lambda runs: _fairest(runs, max), fixed) if several else None,
    }
    return [compare(PUBLISHED, name, value) for name, value in values.items()]


def _validated(tuned: Runs) -> Share:
    """The windows named right in validation, by the classifier that the runs have used."""
    files = [path for outcome in tuned for path in RunDirectory(outcome.path).classifiers.glob("*")]
    counts = read_classifier(files[0]).training.validated.values() if files else ()
    return share(sum(right for right, _ in counts), sum(of for _, of in counts))


def _right_percent(tuned: Runs) -> float | None:
    """Right decisions, mean over the buffers."""
    return mean_or_none(100 * (one.right.rate or 0.0) for one in decisions_of(tuned).values())


def _split(runs: Runs) -> tuple[list[Outcome], list[Outcome]]:
    """The runs of unchanged BBR, and those of a tuner."""
    tuned = valid_of(runs, "tuned")
    return [outcome for outcome in runs if outcome not in tuned], tuned


def _better(runs: Runs) -> dict[float, float]:
    """Buffer in BDP → improvement of Jain's index by the tuner."""
    before, after = map(jains, _split(runs))
    return {at: after[at] - before[at] for at in before.keys() & after.keys()}


def _most_improved(runs: Runs) -> float | None:
    better = _better(runs)
    return max(better, key=lambda at: better[at]) if len(better) > 1 else None


def _gap_reduction(runs: Runs, of: Callable[[float], bool]) -> float | None:
    """Reduction of the difference of the two shares by the tuner, mean over buffers."""
    before, after = map(_gaps, _split(runs))
    return mean_or_none(before[at] - after[at] for at in before.keys() & after.keys() if of(at))


def _gaps(runs: Runs) -> dict[float, float]:
    bbr, cubic = (shares(runs, cc) for cc in ("bbr", "cubic"))
    return {at: abs(bbr[at] - cubic[at]) for at in bbr}


def _fairest(runs: Runs, end: Callable[[Iterable[float]], float]) -> float | None:
    """The fairest gain in the smallest or the largest buffer."""
    fairest = fairest_gains(_by_axis(runs, "gains", "gain"))
    return float(fairest[end(fairest)]) if fairest else None


def fairest_gains(gains: Mapping[str, Runs]) -> dict[float, str]:
    """Buffer in BDP → the gain with the largest Jain's index, mean over its runs."""
    best: dict[float, tuple[float, str]] = {}
    for gain, runs in gains.items():
        for at, index in jains(runs).items():
            best[at] = max(best.get(at, (0.0, "")), (index, gain))
    return {at: gain for at, (_, gain) in sorted(best.items())}


def _fairness(groups: Mapping[str, Runs], name: str, title: str) -> Section:
    every = [outcome for runs in groups.values() for outcome in runs]
    text = "The document shows these figures without numbers, so only ours are drawn."
    if not every:
        return Section(name, title, text, ())
    share_lines = {
        f"{cc.upper()}, {group}": shares(runs, cc)
        for group, runs in groups.items()
        for cc in ("bbr", "cubic")
    }
    jain_lines = {group: jains(runs) for group, runs in groups.items()}
    items = (
        buffer_figure(
            f"{name}a",
            "Share of the bandwidth",
            share_lines,
            "percent",
            marks={"even": level(every, 50.0)},
        ),
        buffer_figure(
            f"{name}b",
            "Jain's index of the two flows",
            jain_lines,
            "Jain's index",
            caption="Mean over the runs of each buffer; 0.5 if one flow gets everything.",
            marks={"all to one": level(every, 0.5)},
        ),
        _table(groups, f"{name}-table"),
    )
    return Section(name, title, text, items)


def _table(groups: Mapping[str, Runs], name: str) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for group, runs in groups.items():
        for at, its in by_buffer(runs).items():
            indices = [index for index in map(jain, its) if index is not None]
            rows.append(
                (
                    *(at, group, len(its), rounded(shares(its, "bbr").get(at))),
                    *(rounded(mean_or_none(indices), 3), rounded(min(indices, default=None), 3)),
                    *(rounded(max(indices, default=None), 3), rounded(mean_or_none(map(_both, its)))),
                )
            )
    columns = (
        *("buffer, BDP", "gain", "runs", "BBR's share, %", "Jain's index", "least", "largest"),
        "goodput of both, Mbit/s",
    )
    caption = "A fair share may be a share of little: the last column says what both flows got."
    return Table(name, "Fairness and goodput", caption, columns, tuple(sorted(rows, key=lambda row: row[:2])))


def _both(outcome: Outcome) -> float | None:
    rates = [rate for cc in ("bbr", "cubic") for rate in goodputs_mbps(outcome, cc)]
    return sum(rates) if len(rates) == 2 else None


def _goodputs(runs: Runs) -> dict[float, float]:
    """Buffer in BDP → goodput of both flows, Mbit/s, mean over its runs."""
    found = {at: mean_or_none(map(_both, its)) for at, its in by_buffer(runs).items()}
    return {at: rate for at, rate in found.items() if rate is not None}


def _of_gains(gains: Mapping[str, Runs]) -> Section:
    text = (
        "Which fixed gain is fairest in which buffer: the paper's empirical study (section 2.3). The "
        "classifiers were trained on such runs."
    )
    runs = [outcome for its in gains.values() for outcome in its]
    if not runs:
        return Section("gains", "Fixed gains", text, ())
    fairest = fairest_gains(gains)
    order = sorted(gains, key=float)
    by_gain = {gain: jains(gains[gain]) for gain in order}
    both = {gain: _goodputs(gains[gain]) for gain in order}
    rows: list[tuple[Cell, ...]] = [
        (
            *(at, gain, rounded(by_gain[gain][at], 3), rounded(by_gain.get(LINUX_GAIN, {}).get(at), 3)),
            *(rounded(both[gain].get(at)), rounded(both.get(LINUX_GAIN, {}).get(at))),
        )
        for at, gain in fairest.items()
    ]
    columns = (
        *("buffer, BDP", "fairest gain, %", "its Jain's index", "that of 200 %"),
        *("its goodput of both, Mbit/s", "that of 200 %"),
    )
    caption = "Of the gains that were run, by the mean of Jain's index over the runs."
    figures = (
        buffer_figure(
            "gains-jain",
            "Jain's index by fixed gain",
            {f"{gain} %": by_gain[gain] for gain in order},
            "Jain's index",
        ),
        buffer_figure(
            "gains-goodput",
            "Goodput of both flows by fixed gain",
            {f"{gain} %": both[gain] for gain in order},
            "Mbit/s",
        ),
        Table("gains-fairest", "The fairest gain of each buffer", caption, columns, tuple(rows)),
    )
    return Section("gains", "Fixed gains", text, figures)


def _classifier(groups: Mapping[str, Runs], name: str, title: str, published: bool) -> Section:
    text = (
        "Each second of each run of a tuner is a decision; it is right if it named the buffer of the run. "
        "Intervals are exact for independent decisions, which those of one run are not quite."
    )
    accuracy: Mapping[float, int] = dict(
        zip(PUBLISHED["buffers_bdp"], PUBLISHED["classifier_accuracy_percent"], strict=True)
    )
    found = {group: decisions_of(runs) for group, runs in groups.items()}
    found = {group: decisions for group, decisions in found.items() if decisions}
    if not found:
        return Section(name, title, text, ())
    rows: list[tuple[Cell, ...]] = []
    for group, decisions in found.items():
        for at, one in decisions.items():
            most = max(one.named, key=lambda label: one.named[label])
            row: tuple[Cell, ...] = (at, group, shown(one.right), most)
            rows.append((*row, accuracy.get(at)) if published else row)
    last = ("published, %",) if published else ()
    columns = ("buffer, BDP", "tuner", "right decisions", "most often named", *last)
    table = Table(name, title, "", columns, tuple(sorted(rows, key=lambda row: row[:2])))
    return Section(name, title, text, (*(_confusion(name, *each) for each in found.items()), table))


def _confusion(name: str, group: str, decisions: Mapping[float, Decisions]) -> Table:
    sizes = sorted({_size(label) for one in decisions.values() for label in one.named} | set(decisions))
    values: list[tuple[float, ...]] = []
    counts: list[tuple[int, ...]] = []
    for one in decisions.values():
        by_size = {_size(label): count for label, count in one.named.items()}
        counts.append(tuple(by_size.get(size, 0) for size in sizes))
        values.append(tuple(100 * count / sum(counts[-1]) for count in counts[-1]))
    return heat_figure(
        f"{name}-{re.sub('[^a-z]+', '-', group.lower())}",
        f"Named buffers: {group}",
        "Percent of the decisions in each buffer.",
        HeatMap(tuple(sizes), tuple(decisions), tuple(values), tuple(counts)),
        x="named, BDP",
        y="buffer, BDP",
        value="%",
        digits=0,
    )


def _size(buffer: str) -> float:
    return float(buffer.removesuffix("BDP"))


def _latency(valid: Runs, tuned: Runs) -> Section:
    """Beside those of the part `tuned`, whose decisions take effect after the paper's 3 ms."""
    groups = _by_axis(valid, "latency", "tuning")
    sizes = by_buffer([outcome for runs in groups.values() for outcome in runs])
    soon = [outcome for outcome in tuned if buffer_bdp(outcome) in sizes]
    title = "Decisions that take effect later"
    return _fairness({"after 3 ms": soon, **groups} if groups else {}, "latency", title)
