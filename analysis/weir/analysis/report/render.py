# SPDX-License-Identifier: Apache-2.0
"""Writes `report.html` from the result and series of a run, with style, scripts and data inline."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from weir.analysis.models import Result
from weir.analysis.report import text
from weir.analysis.report.charts import Series, charts, colours, pair_charts, series_of, tuning_charts
from weir.analysis.result_file import read_result
from weir.analysis.tables import TCP, read_parquet
from weir.rundir.directory import RunDirectory
from weir.rundir.errors import RunFileError
from weir.rundir.whole_files import write_whole

_HERE = Path(__file__).parent


def write_report(run_dir: Path) -> Path:
    """Write `report.html` into an analysed run directory and return its path; raises RunFileError."""
    files = RunDirectory(run_dir)
    result = read_result(run_dir)
    if not files.series.is_file():
        raise RunFileError(f"{files.series}: not found; the analysis of the run writes it")
    tuning = read_parquet(files.tuning).to_pylist() if files.tuning.is_file() else []
    page = render_report(result, series_of(read_parquet(files.series)), tuning)
    write_whole(files.report, page.encode())
    return files.report


def render_report(result: Result, series: Series, tuning: Sequence[Mapping[str, Any]] = ()) -> str:
    """The page as text; `tuning` are rows of `tuning.parquet`.

    The template or `data_script` escapes every string of the run.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(text.FILTERS)
    drawn = charts(result, series)
    numbered: dict[str, Any] = {}
    for groups in drawn.values():
        for group in groups.values():
            for chart in group:
                chart["id"] = f"chart-{len(numbered)}"
                numbered[chart["id"]] = chart
    of_pairs, of_tuners = pair_charts(result), tuning_charts(result, tuning)
    for chart in (*of_pairs, *of_tuners):
        chart["id"] = f"chart-{len(numbered)}"
        numbered[chart["id"]] = chart
    return environment.get_template("page.html.j2").render(
        result=result,
        TCP=TCP,
        charts=drawn,
        pair_charts=of_pairs,
        tuning_charts=of_tuners,
        colours=colours(result),
        started=_started(result),
        names=_names(result),
        wrong_pairs=[pair for pair in result.pairs if pair.verdict != pair.truth],
        css=style(),
        script=Markup((_HERE / "page.js").read_text(encoding="utf-8")),
        plotly=plotly_script(),
        data=data_script(numbered),
    )


def _started(result: Result) -> str | None:
    """The start of the first phase; of a run in virtual time, whose clock tells nothing, the kernel."""
    if result.kernel is not None:
        return f"virtual time, kernel {result.kernel}"
    starts = [phase.start_ns for phase in result.phases]
    if not starts:
        return None
    return datetime.fromtimestamp(min(starts) // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def style() -> Markup:
    """The style sheet of all pages, with named colours, light and dark."""
    return Markup((_HERE / "page.css").read_text(encoding="utf-8"))


def plotly_script() -> Markup:
    """plotly.js for a script element."""
    return Markup(_safe_script(get_plotlyjs()))


def data_script(value: object) -> Markup:
    """JSON for a script element, without characters that HTML could read as markup."""
    written = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _safe_script(source: str) -> str:
    """JavaScript for a script element; `<\\/script` means the same in a string or regular expression."""
    return source.replace("</script", "<\\/script")


def _names(result: Result) -> dict[str, str]:
    """Flow ids to names without the phase, which the table has in a column."""
    known = {flow.id: flow.name for flow in result.flows}
    return {flow_id: known.get(flow_id, flow_id) for pair in result.pairs for flow_id in pair.flows}
