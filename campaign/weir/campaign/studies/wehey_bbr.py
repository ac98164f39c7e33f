# SPDX-License-Identifier: Apache-2.0
"""Figures and tables 2–4 of M. Rimkevičius, "Localizing Traffic Differentiation with TCP BBR", EPFL 2024.

A false negative is a pair behind a common policer that a rule calls separate, a false positive a pair behind
two policers that it calls shared. Pairs with too little loss are left out, as in the report (section 5.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from weir.analysis.figures import Figure, Section, Table, box_figure
from weir.analysis.figures.figure import Cell
from weir.analysis.statistics import best_correlation, grouped_median, kolmogorov_smirnov, share
from weir.campaign.outcome import Outcome
from weir.campaign.studies.beside import NO_DIFFERENCE, NOT_RUN, NOTHING_PUBLISHED, compare_counts, shown
from weir.campaign.studies.measured import INTERVAL, interval_cells
from weir.campaign.studies.per_rtt import per_rtt
from weir.campaign.studies.runs import label, rounded, valid_of
from weir.campaign.studies.statements import numbers_of
from weir.rundir.plural import plural

PUBLISHED = numbers_of("wehey_bbr")
SCENARIOS = ("BBR with BBR", "BBR with CUBIC", "CUBIC with BBR", "CUBIC with CUBIC")
TRUTH = {"common": "shared", "non-common": "separate"}
RULE, THROUGHPUT = "wehey_loss_trend", "throughput-spearman"
WORDS = "in words"
CLAIMS = ("BBR loses more", "BBR waits less")
STRICT = 0.95


def sections(outcomes: Sequence[Outcome]) -> tuple[Section, ...]:
    """The study's part of the page. Only the table of errors by lateness includes invalid runs."""
    complete, outcomes = outcomes, valid_of(outcomes)
    tables, tests, medians = _tables(outcomes), _tests(outcomes), _medians(outcomes)
    words = _in_words(outcomes, (*tables, *tests, medians))
    return (
        Section("published", "Beside the published tables", words, tables),
        Section(
            "per-rtt",
            "Throughput at intervals of an RTT",
            "Figure 1 of the report, by which it verified its setup: BBR probes, CUBIC grows and backs off.",
            per_rtt(outcomes, PUBLISHED["rates"][-1]),
        ),
        Section(
            "common",
            "Loss and delay behind a common policer",
            "Figures 2 and 3 of the report: of the two flows of each run the lower and the higher value, in "
            "blue and red. Loss is what the switch dropped.",
            (*_loss_and_delay(outcomes), *tests, medians),
        ),
        Section(
            "best-correlation",
            "Best correlation coefficients",
            "Figures 4 to 6: the highest coefficient with p < 0.05 over all interval sizes, or the highest; "
            "for throughput the highest whatever its p.",
            _correlations(outcomes),
        ),
        Section(
            "lateness",
            "Does the machine's lateness change verdicts?",
            "A machine that wakes senders and switch late moves losses, and may correlate those of two.",
            _by_lateness(complete),
        ),
    )


def _pairs(outcomes: Iterable[Outcome], detector: str) -> list[tuple[Outcome, Mapping[str, Any]]]:
    return [(o, pair) for o in outcomes for pair in o.result["pairs"] if pair["detector"] == detector]


def verdict_of(pair: Mapping[str, Any], strict: bool) -> str:
    """The published rule's verdict; `strict` requires more than 95 % of the interval sizes, not half."""
    if not strict or pair["verdict"] == "cannot_tell":
        return str(pair["verdict"])
    detail = pair["detail"]
    return "shared" if detail["significant"] > STRICT * detail["sizes_used"] else "separate"


def _errors(outcomes: Iterable[Outcome], detector: str, truth: str, strict: bool = False) -> tuple[int, int]:
    """Number of wrong and of all verdicts, over the pairs whose truth is `truth`."""
    verdicts = [verdict_of(pair, strict) for _, pair in _pairs(outcomes, detector) if pair["truth"] == truth]
    judged = [verdict for verdict in verdicts if verdict != "cannot_tell"]
    return sum(verdict != truth for verdict in judged), len(judged)


def _selected(outcomes: Iterable[Outcome], scenario: str, extra: bool) -> list[Outcome]:
    rates = [PUBLISHED["extra_rate"]] if extra else PUBLISHED["rates"]
    return [o for o in outcomes if label(o, "scenario") == scenario and label(o, "rate") in rates]


def _published(numbers: Mapping[str, Any], name: str, scenario: str, extra: bool) -> tuple[int, int] | None:
    found = numbers.get(f"{name}, extra rate" if extra else name, {}).get(scenario)
    return (found[0], found[1]) if found else None


COLUMNS = (
    *("scenario", "rates", "rule", "published", "ours", "difference, points", "p", WORDS),
    *("weir's shared", "less the rule"),
)


def _tables(outcomes: Sequence[Outcome]) -> tuple[Table, ...]:
    negatives, positives = PUBLISHED["false_negatives"], PUBLISHED["false_positives"]
    return (
        _table("table-2", "False negatives, common policer (table 2)", outcomes, "shared", negatives),
        _table("table-3", "False positives, non-common policers (table 3)", outcomes, "separate", positives),
        _throughput_table(outcomes),
        _detectors(outcomes),
    )


def _table(
    name: str, title: str, outcomes: Sequence[Outcome], truth: str, published: Mapping[str, Any]
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for scenario in SCENARIOS:
        for extra in (False, True):
            some = _selected(outcomes, scenario, extra)
            best = share(*_errors(some, "shared", truth))
            for rule in ("50 %", "95 %"):
                found = compare_counts(
                    *_errors(some, RULE, truth, rule == "95 %"), _published(published, rule, scenario, extra)
                )
                if found.published is None and not found.ours.of:
                    continue
                gain = None
                if best.rate is not None and found.ours.rate is not None:
                    gain = 100 * (best.rate - found.ours.rate)
                rates = PUBLISHED["extra_rate"] if extra else "40 to 80 Mbit/s"
                rows.append(
                    (
                        *(scenario, rates, rule, shown(found.published), shown(found.ours)),
                        *(rounded(found.difference), rounded(found.p, 3), found.verdict),
                        *(shown(best), rounded(gain)),
                    )
                )
    caption = (
        f"{published['table']} of {PUBLISHED['source']}. Exact 95 % intervals; p of Fisher's exact test. "
        "At the end weir's detector `shared` on the same runs, and its percentage less the rule's."
    )
    return Table(name, title, caption, COLUMNS, tuple(rows))


def _throughput_table(outcomes: Sequence[Outcome]) -> Table:
    numbers = PUBLISHED["throughput"]
    rows: list[tuple[Cell, ...]] = []
    for scenario in SCENARIOS:
        for extra in (False, True):
            some = _selected(outcomes, scenario, extra)
            for kind, truth in (("false_negatives", "shared"), ("false_positives", "separate")):
                found = compare_counts(
                    *_errors(some, THROUGHPUT, truth), _published(numbers, kind, scenario, extra)
                )
                if found.published is None and not found.ours.of:
                    continue
                rates = PUBLISHED["extra_rate"] if extra else "40 to 80 Mbit/s"
                rows.append(
                    (
                        *(scenario, rates, kind.replace("_", " "), shown(found.published), shown(found.ours)),
                        *(rounded(found.difference), rounded(found.p, 3), found.verdict),
                    )
                )
    columns = (*COLUMNS[:2], "errors", *COLUMNS[3:8])
    return Table("table-4", "Correlation of throughput (table 4)", "50 % rule.", columns, tuple(rows))


def _detectors(outcomes: Sequence[Outcome]) -> Table:
    """Every detector over all runs, and the published rule in its strict form."""
    names = dict.fromkeys(pair["detector"] for o in outcomes for pair in o.result["pairs"])
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        for strict in (False, True) if name == RULE else (False,):
            wrong = [shown(share(*_errors(outcomes, name, truth, strict))) for truth in TRUTH.values()]
            its = _pairs(outcomes, name)
            undecided = sum(pair["verdict"] == "cannot_tell" for _, pair in its)
            rows.append((f"{name}, 95 %" if strict else name, len(its), undecided, *wrong))
    columns = ("detector", "pairs", "cannot tell", "false negatives", "false positives")
    return Table("detectors", "Every detector on the same runs", "All rates.", columns, tuple(rows))


def _by_lateness(complete: Sequence[Outcome]) -> tuple[Table, ...]:
    """Errors of the less disturbed half of the valid runs, of the other half, and of the invalid runs."""
    measured = [(late.p99_s, o) for o in complete if (late := o.manifest.scheduling)]
    valid = sorted(((late_s, o) for late_s, o in measured if o.valid), key=lambda pair: pair[0])
    groups = {
        "valid, the half less late": valid[: len(valid) // 2],
        "valid, the other half": valid[len(valid) // 2 :],
        "invalid": [(late_s, o) for late_s, o in measured if not o.valid],
    }
    rows: list[tuple[Cell, ...]] = []
    for name, its in groups.items():
        if not its:
            continue
        late_ms = [1e3 * late_s for late_s, _ in its]
        errors = [
            shown(share(*_errors([o for _, o in its], detector, truth)))
            for detector in (RULE, "shared")
            for truth in TRUTH.values()
        ]
        rows.append((name, len(its), f"{min(late_ms):.2f} to {max(late_ms):.2f}", *errors))
    if not rows:
        return ()
    columns = (
        *("runs", "number", "woke late p99, ms"),
        *("published rule: false negatives", "published rule: false positives"),
        *("shared: false negatives", "shared: false positives"),
    )
    caption = "Exact 95 % intervals. In no other table are invalid runs."
    return (
        Table("verdicts-by-lateness", "Errors by how late processes woke", caption, columns, tuple(rows)),
    )


def _in_words(outcomes: Sequence[Outcome], tables: Sequence[Table]) -> str:
    """One paragraph that summarises the comparison."""
    if not outcomes:
        return "No valid run yet, so there is nothing to compare."
    named = {table.name: table for table in tables}
    compared = [
        (table, row, row[table.columns.index(WORDS)])
        for table in tables
        if WORDS in table.columns
        for row in table.rows
    ]
    comparable = [each for each in compared if each[2] not in (NOT_RUN, NOTHING_PUBLISHED)]
    others = [each for each in comparable if each[2] != NO_DIFFERENCE]
    sentences = [
        f"Of {plural(len(comparable), 'published error count')} (tables 2 to 4) that "
        f"{plural(len(outcomes), 'run')} can be held against, {len(comparable) - len(others)} "
        "show no difference."
    ]
    sentences += [f"{table.title}, {row[0]}, {row[1]}, {row[2]}: {words}." for table, row, words in others]
    if "kolmogorov-smirnov" in named:
        claims = Counter((row[0], row[-1]) for row in named["kolmogorov-smirnov"].rows)
        yes = [(claims[claim, "yes"], claims[claim, "yes"] + claims[claim, "no"]) for claim in CLAIMS]
        sentences.append(
            f"Behind a common policer BBR's median loss is above CUBIC's in {yes[0][0]} of {yes[0][1]} "
            f"cases, its median delay below in {yes[1][0]} of {yes[1][1]}; the report has both."
        )
    for scenario, rate, published, ours, low, high, *_ in named["medians"].rows:
        if ours is not None:
            ends = "" if low is None else f" ({low} to {high})"
            sentences.append(
                f"The median loss of {scenario} at {rate} is {ours} %{ends}, published {published} %."
            )
    theirs = [_errors(outcomes, RULE, truth) for truth in TRUTH.values()]
    weirs = [_errors(outcomes, "shared", truth) for truth in TRUTH.values()]
    undecided = len(_pairs(outcomes, "shared")) - sum(of for _, of in weirs)
    sentences.append(
        f"The published rule errs in {theirs[0][0]} of {theirs[0][1]} common and {theirs[1][0]} of "
        f"{theirs[1][1]} non-common pairs, weir's own detector in {weirs[0][0]} of {weirs[0][1]} and "
        f"{weirs[1][0]} of {weirs[1][1]}; it cannot tell in {undecided}."
    )
    judged = [(o, pair) for o in outcomes for pair in o.result["pairs"]]
    right = sum(pair["truth"] == TRUTH.get(label(o, "policer")) for o, pair in judged)
    sentences.append(
        f"The declared policer is the truth in {right} of {plural(len(judged), 'verdict')} "
        f"({plural(len(_pairs(outcomes, RULE)), 'pair')})."
    )
    queued = all(any(link["queue_bytes"] for link in o.result["links"]) for o in outcomes)
    sentences.append(
        f"Our policers are token buckets {'with' if queued else 'without'} the report's queue of one burst, "
        "its background was a replay and is drawn here, and half of the rate behind each of two policers is "
        "our reading of the text."
    )
    return " ".join(sentences)


def _loss_and_delay(outcomes: Sequence[Outcome]) -> tuple[Figure, ...]:
    measures: tuple[tuple[str, str, str, float, str], ...] = (
        ("figure-2", "Loss (figure 2)", "loss_ratio", 100, "loss in percent"),
        ("figure-3", "Delay (figure 3)", "mean_delay_s", 1e3, "mean delay in ms"),
    )
    drawn = []
    for name, title, key, factor, unit in measures:
        values: dict[str, dict[str, list[float | None]]] = {"lower of the two": {}, "higher of the two": {}}
        for o in _common(outcomes):
            known = sorted(flow[key] * factor for flow in o.measured if flow[key] is not None)
            if known:
                shown_at = f"{label(o, 'rate').removesuffix(' Mbit/s')}, {label(o, 'scenario')}"
                values["lower of the two"].setdefault(shown_at, []).append(known[0])
                values["higher of the two"].setdefault(shown_at, []).append(known[-1])
        if values["lower of the two"]:
            drawn.append(
                box_figure(name, title, "Rate in Mbit/s, measured with background.", values, unit=unit)
            )
    return tuple(drawn)


def _common(outcomes: Iterable[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if label(o, "policer") == "common"]


def _tests(outcomes: Sequence[Outcome]) -> tuple[Table, ...]:
    """BBR versus CUBIC with the same rate and background; section 4: BBR has more loss and less delay."""
    rows: list[tuple[Cell, ...]] = []
    measures: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
        ("loss_ratio", CLAIMS[0], lambda bbr, cubic: bbr > cubic),
        ("mean_delay_s", CLAIMS[1], lambda bbr, cubic: bbr < cubic),
    )
    for key, claim, holds in measures:
        for rate in dict.fromkeys(label(o, "rate") for o in outcomes):
            for other in ("BBR", "CUBIC"):
                samples = [_values(outcomes, rate, f"{cc} with {other}", key) for cc in ("BBR", "CUBIC")]
                found = kolmogorov_smirnov(samples[0], samples[1])
                if found is None:
                    continue
                medians = [sorted(sample)[len(sample) // 2] for sample in samples]
                agrees = "yes" if holds(*medians) else "no"
                rows.append((claim, rate, other, found.n_a, found.n_b, found.statistic, found.p, agrees))
    if not rows:
        return ()
    columns = ("published", "rate", "background", "n BBR", "n CUBIC", "distance", "p", "medians agree")
    caption = (
        "Two-sided Kolmogorov–Smirnov tests. Each flow is a value, and p takes values as independent, "
        "although the two flows of a run compete; it is large where there are few runs."
    )
    return (Table("kolmogorov-smirnov", "BBR against CUBIC", caption, columns, tuple(rows)),)


def _values(outcomes: Sequence[Outcome], rate: str, scenario: str, key: str) -> list[float]:
    return [value for o in _behind(outcomes, rate, scenario) for value in _known(o, key)]


def _behind(outcomes: Sequence[Outcome], rate: str, scenario: str) -> list[Outcome]:
    """The runs of a scenario behind a common policer of this rate."""
    return [o for o in _common(outcomes) if (label(o, "rate"), label(o, "scenario")) == (rate, scenario)]


def _known(outcome: Outcome, key: str) -> list[float]:
    return [flow[key] for flow in outcome.measured if flow[key] is not None]


def _medians(outcomes: Sequence[Outcome]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for published in PUBLISHED["median_loss_percent"]:
        chosen = _behind(outcomes, published["rate"], published["scenario"])
        ours, interval = grouped_median([[100 * loss for loss in _known(o, "loss_ratio")] for o in chosen])
        difference = None if ours is None else ours - published["percent"]
        rows.append(
            (
                *(published["scenario"], published["rate"], published["percent"], rounded(ours)),
                *(*interval_cells(interval, 1), rounded(difference), published["where"]),
            )
        )
    columns = ("scenario", "rate", "published, %", "ours, %", *INTERVAL, "difference, points", "where")
    caption = f"{PUBLISHED['source']}. Low and high: the interval of the medians of each run."
    return Table("medians", "Median loss that the text names", caption, columns, tuple(rows))


def _correlations(outcomes: Sequence[Outcome]) -> tuple[Figure, ...]:
    wanted = (
        ("figure-4", "Loss, common policer (figure 4)", RULE, "shared"),
        ("figure-5", "Loss, non-common policers (figure 5)", RULE, "separate"),
        ("figure-6", "Throughput, common policer (figure 6)", THROUGHPUT, "shared"),
    )
    drawn = []
    for name, title, detector, truth in wanted:
        values: dict[str, dict[str, list[float | None]]] = {}
        for o, pair in _pairs(outcomes, detector):
            best = best_of(pair)
            if pair["truth"] == truth and best is not None:
                values.setdefault(label(o, "scenario"), {}).setdefault(label(o, "rate"), []).append(best)
        if values:
            drawn.append(box_figure(name, title, "", values, unit="best rank correlation"))
    return tuple(drawn)


def best_of(pair: Mapping[str, Any]) -> float | None:
    """The best coefficient over the interval sizes of a pair's detector; None if there is none."""
    sizes = [size for size in pair["detail"].get("sizes", ()) if size.get("used", True)]
    if pair["detector"] == THROUGHPUT:
        return best_correlation([size["coefficient"] for size in sizes])
    return best_correlation([size["rho"] for size in sizes], [size["p"] for size in sizes])
