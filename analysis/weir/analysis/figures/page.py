# SPDX-License-Identifier: Apache-2.0
"""Writes a study as one self-contained HTML page, its figures as SVG and its tables as CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jinja2
from markupsafe import Markup, escape

from weir.analysis.figures.browser import BrowserError, opened
from weir.analysis.figures.figure import Figure, Link, Table
from weir.analysis.figures.study import Study
from weir.analysis.report import text
from weir.analysis.report.render import data_script, plotly_script, style
from weir.rundir.whole_files import write_whole

_HERE = Path(__file__).parent
_CODE = re.compile(r"`([^`]+)`")
_LINKS = re.compile(r'<p class="files">(.*?)</p>')
_FILE = re.compile(r'<a href="((?:data|figures)/[^"/]+\.(?:csv|svg))">')


class DrawingError(RuntimeError):
    """Chromium did not draw the figures; the text has its message."""


def render_study(study: Study, *, files: bool = True, drawn: bool = True) -> str:
    """The page as text; `files` adds links to the CSV files under each item, `drawn` to the SVG files."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = _cell
    environment.filters["prose"] = _prose
    return environment.get_template("study.html.j2").render(
        study=study,
        is_figure=lambda item: isinstance(item, Figure),
        is_link=lambda cell: isinstance(cell, Link),
        files=files,
        drawn=drawn,
        css=style(),
        script=Markup((_HERE / "study.js").read_text(encoding="utf-8")),
        plotly=plotly_script(),
        data=data_script(_figures(study)),
    )


def write_study(study: Study, directory: Path) -> tuple[Path, tuple[str, ...]]:
    """Write `index.html`, `data/*.csv` and `figures/*.svg`; returns the page's path and warnings.

    Chromium draws the SVG files; without it there are none, and a warning. Files of the page that was there
    before, and of which this one has none, are removed, as they are of other runs. Raises OSError.
    """
    data, figures, page = directory / "data", directory / "figures", directory / "index.html"
    before = _linked_from(page.read_text(encoding="utf-8", errors="replace")) if page.is_file() else set()
    data.mkdir(parents=True, exist_ok=True)
    for item in study.tables:
        write_whole(data / f"{item.name}.csv", as_csv(item).encode())
    warnings: tuple[str, ...] = ()
    drawings: dict[str, str] = {}
    try:
        drawings = as_svg(study)
    except DrawingError as error:
        warnings = (f"no SVG files: {error}",)
    if drawings:
        figures.mkdir(exist_ok=True)
    for name, drawing in drawings.items():
        write_whole(figures / f"{name}.svg", drawing.encode())
    rendered = render_study(study, drawn=bool(drawings))
    write_whole(page, rendered.encode())
    for name in before - _linked_from(rendered):
        (directory / name).unlink(missing_ok=True)
    return page, warnings


def _linked_from(text: str) -> set[str]:
    """The files of tables and figures that the text of a page links to."""
    return {name for links in _LINKS.findall(text) for name in _FILE.findall(links)}


def as_csv(item: Table) -> str:
    """The table as CSV (RFC 4180, but with line feeds); missing values are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(item.columns)
    writer.writerows(item.rows)
    return out.getvalue()


def as_svg(study: Study) -> dict[str, str]:
    """Each figure's name and SVG text; raises DrawingError where Chromium is not installed or fails."""
    figures = _figures(study)
    if not figures:
        return {}
    with TemporaryDirectory(prefix="weir-") as temporary:
        page = Path(temporary) / "draw.html"
        page.write_text(
            f"<!doctype html><meta charset=utf-8><style>{style()}</style><body><pre id=drawn></pre>"
            f'<script type="application/json" id="data">{data_script(figures)}</script>'
            f"<script>{plotly_script()}</script><script>var exporting = true;</script>"
            f"<script>{(_HERE / 'study.js').read_text(encoding='utf-8')}</script>",
            encoding="utf-8",
        )
        try:
            done = opened(page)
        except BrowserError as error:
            raise DrawingError(f"they are drawn by Chromium: {error}") from error
    shown = re.search(r'<pre id="drawn">(.*?)</pre>', done.dom, re.DOTALL)
    if shown is None or not shown[1]:
        last_line = f": {done.stderr_last_line}" if done.stderr_last_line else ""
        raise DrawingError(f"{done.program} drew nothing{last_line}")
    drawings: dict[str, str] = json.loads(unescape(shown[1]))
    return drawings


def _figures(study: Study) -> dict[str, Any]:
    return {
        item.name: {"traces": item.traces, "layout": item.layout, "height": item.height, "title": item.title}
        for item in study.tables
        if isinstance(item, Figure)
    }


def _prose(value: str) -> Markup:
    """Text in which `names` are code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(value))))


def _cell(value: object) -> str:
    if value is None:
        return text.MISSING
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e3 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
