# SPDX-License-Identifier: Apache-2.0
"""Virtual time beside real time: the same experiments in both, and where their numbers differ.

Usage: python -m weir.bench.times [options]; the last line is JSON. It first makes the missing runs of
`bench/times.yaml` with `weir campaign`, so it continues where it was stopped; `--time` limits them to one
time, as real runs need a quiet machine. Then it compares, by Kolmogorov–Smirnov tests and Cliff's delta,
virtual time with real time, and with virtual time without lines. Writes times.md and a page with drawings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import weir
from weir.analysis.figures import Section, Study, write_study
from weir.analysis.figures.figure import Cell, Figure, Table, colour
from weir.analysis.statistics import ecdf
from weir.bench.measuring import ROOT
from weir.bench.times_numbers import METRICS, Comparison, Kept, Numbers, Samples, compared, values

CAMPAIGN = ROOT / "bench" / "times.yaml"
TIMES = ("virtual", "real", "no line")
PAIRS = (("virtual", "real"), ("virtual", "no line"), ("no line", "real"))
DRAWN = ("goodput", "Jain's index", "loss", "RTT, median", "uncongested RTT, median", "burst, mean")
SIGNIFICANT = 0.01
_SECONDS = "variables: {seconds: 20 s}"
_COLUMNS = (
    *("cell", "number", "unit", "runs", "median, first", "second", "difference"),
    *("KS distance", "p", "p, corrected", "Cliff's delta", "effect"),
)


def campaign_file(folder: Path, seconds: int) -> Path:
    """The campaign with flows of so many seconds, in `folder`, which has runs of this duration only."""
    text = CAMPAIGN.read_text()
    if text.count(_SECONDS) != 1:
        raise SystemExit(f"{CAMPAIGN} has no line {_SECONDS!r}")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / CAMPAIGN.name
    file.write_text(text.replace(_SECONDS, f"variables: {{seconds: {seconds} s}}"))
    return file


def make_runs(file: Path, times: Iterable[str], repeats: int, jobs: int | None) -> None:
    """Make the missing runs; one that fails or is invalid is reported by the campaign, and does not stop."""
    program = Path(sys.executable).with_name("weir")
    for time in times:
        command = [program, "campaign", file, "--repeats", repeats, "--only", f"time={time}"]
        # Runs in real time disturb each other.
        command += ["--runs", file.parent, *(["--jobs", jobs] if jobs and time != "real" else [])]
        code = subprocess.run([str(word) for word in command], check=False).returncode
        if code >= 128:
            raise SystemExit(code)


def samples_of(folder: Path, *, invalid: bool) -> Samples:
    """The numbers of all complete runs; of the valid ones only, without `invalid`."""
    campaign = weir.open_campaign(folder)
    valid = {row["run"] for row in campaign.table.arrow().to_pylist() if row["valid"] or invalid}
    kept = Kept(folder / "numbers.json")
    found: dict[str, dict[str, list[Numbers]]] = {}
    for run in campaign:
        if run.path.name in valid:
            cell = f"{run.cell['cc'].upper()}, {run.cell['policers']}"
            found.setdefault(cell, {}).setdefault(run.cell["time"], []).append(kept.of(run))
    return found


def rows_of(found: Iterable[Comparison]) -> Iterator[tuple[Cell, ...]]:
    """The rows of a table, under `_COLUMNS`."""
    for each in found:
        a, b = each.medians
        yield (
            *(each.cell, each.metric, METRICS[each.metric], f"{each.runs[0]}, {each.runs[1]}"),
            *(_short(a), _short(b), _short(a - b), _short(each.ks), _short(each.p), _short(each.q)),
            *(_short(each.delta), each.size),
        )


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−") if abs(value) < 1000 else f"{value:.0f}".replace("-", "−")


def markdown(found: Iterable[Comparison], times: tuple[str, str]) -> str:
    """A table of comparisons, with significant differences in bold."""
    lines = [f"### {times[0]} (first) beside {times[1]} (second)", ""]
    lines += ["| " + " | ".join(_COLUMNS) + " |", "| " + " | ".join("---" for _ in _COLUMNS) + " |"]
    for each, row in zip(found, rows_of(found), strict=True):
        mark = "**" if each.q < SIGNIFICANT else ""
        lines.append("| " + " | ".join(f"{mark}{cell}{mark}" if cell else "" for cell in row) + " |")
    return "\n".join(lines) + "\n"


def drawing(samples: Samples) -> Figure:
    """Distribution functions over the runs: a row for each drawn number, a column for each cell."""
    cells = list(samples)
    traces, layout, rows = [], {}, []
    for row, metric in enumerate(DRAWN):
        for column, cell in enumerate(cells):
            number = row * len(cells) + column
            axis = number + 2  # the page styles the first axis differently
            series = {time: values(samples, cell, time, metric) for time in TIMES}
            known = [value for its in series.values() for value in its]
            margin = (max(known) - min(known)) / 20 or 0.5 if known else 0.0
            width, height = 1 / len(cells), 1 / len(DRAWN)
            left, top = column * width, 1 - row * height
            layout[f"xaxis{axis}"] = {
                "domain": [left + 0.02, left + width - 0.02],
                "anchor": f"y{axis}",
                "range": [min(known) - margin, max(known) + margin] if known else [0, 1],
                "nticks": 5,
                "title": {"text": f"{metric}, {METRICS[metric]}", "font": {"size": 11}},
            }
            layout[f"yaxis{axis}"] = {
                "domain": [top - height + 0.065, top - 0.015],
                "anchor": f"x{axis}",
                "range": [0, 1.05],
                "title": {"text": cell if row == 0 else "", "font": {"size": 11}},
            }
            for order, (time, its) in enumerate(series.items()):
                at, part = ecdf(its)
                rows += [(cell, metric, time, x, y) for x, y in zip(at.tolist(), part.tolist(), strict=True)]
                if not len(at):
                    continue
                # From 0 on, so that few runs and one value are seen too.
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "name": time,
                        "legendgroup": time,
                        "showlegend": number == 0,
                        "x": [at[0], *at.tolist()],
                        "y": [0.0, *part.tolist()],
                        "xaxis": f"x{axis}",
                        "yaxis": f"y{axis}",
                        "line": {"color": colour(order), "width": 1.7, "shape": "hv"},
                    }
                )
    return Figure(
        "distributions",
        "Distribution functions over the runs",
        "Columns: " + "; ".join(cells) + ".",
        ("cell", "number", "time", "value", "part of runs"),
        tuple(rows),
        tuple(traces),
        layout,
        height=190 * len(DRAWN),
        wide=True,
    )


def main() -> None:
    """Make the missing runs, compare."""
    parser = argparse.ArgumentParser(prog="weir.bench.times", description=__doc__)
    parser.add_argument("--runs", type=Path, default=ROOT / "target" / "times", metavar="DIR")
    parser.add_argument("--repeats", type=int, default=20, metavar="N", help="runs of each cell")
    parser.add_argument("--seconds", type=int, default=20, metavar="S", help="duration of the flows")
    parser.add_argument("--time", action="append", choices=TIMES, help="only these; repeatable")
    parser.add_argument("--jobs", type=int, metavar="N", help="runs in virtual time at a time")
    parser.add_argument("--compare", action="store_true", help="make no runs")
    parser.add_argument(
        "--invalid", action="store_true", help="invalid runs too: to try it on a busy machine"
    )
    options = parser.parse_args()
    folder = options.runs / f"{options.seconds}s"
    file = campaign_file(folder, options.seconds)
    if not options.compare:
        make_runs(file, options.time or TIMES, options.repeats, options.jobs)
    samples = samples_of(folder / "times", invalid=options.invalid)
    texts, tables, differing = [], [], {}
    for times in PAIRS:
        found = compared(samples, times)
        if not found:
            continue
        title = f"{times[0]} beside {times[1]}"
        texts.append(markdown(found, times))
        name = title.replace(" ", "-")
        tables.append(Table(name, title, "", _COLUMNS, tuple(rows_of(found))))
        differing[title] = sum(each.q < SIGNIFICANT for each in found)
    (folder / "times.md").write_text("\n".join(texts))
    print("\n".join(texts))
    runs = {time: sum(len(cell.get(time, ())) for cell in samples.values()) for time in TIMES}
    meta = "; ".join(f"{count} runs {time}" for time, count in runs.items())
    section = Section("compared", "Compared", "", (drawing(samples), *tables))
    page, warnings = write_study(Study("Virtual beside real time", meta, (section,)), folder / "page")
    for warning in warnings:
        print(warning, file=sys.stderr)
    print(
        json.dumps(
            {"runs": runs, "differing": differing, "page": str(page), "table": str(folder / "times.md")}
        )
    )


if __name__ == "__main__":
    main()
