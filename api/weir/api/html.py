# SPDX-License-Identifier: Apache-2.0
"""Pieces of HTML for notebooks; every text of a run is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from weir.analysis.report.text import MISSING

_LONGEST = 60


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; numbers are right-aligned."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return (
        f'<div style="overflow-x: auto"><p>{escape(caption)}</p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def lines(texts: Iterable[str]) -> str:
    """Paragraphs."""
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def heading(text: str) -> str:
    """A line in bold."""
    return f"<p><strong>{escape(text)}</strong></p>"


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    style = ' style="text-align: right"' if number else ""
    return f"<td{style}>{escape(_text(value))}</td>"


def _text(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
