# SPDX-License-Identifier: Apache-2.0
"""Help texts fill a terminal of 80 columns: no line is broken early, and no verbatim line is too long."""

from __future__ import annotations

import pytest

from weir.cli.filled_help import Paragraph, filled, paragraphs
from weir.cli.main import app, run_cli
from weir.cli.manual import CommandManual, manual_of

WIDTH = 78
"""Typer leaves a space at both sides of 80 columns."""


@pytest.mark.parametrize("manual", manual_of(app), ids=lambda manual: manual.name)
def test_help_is_wrapped_at_the_terminals_width(
    manual: CommandManual, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run_cli([*manual.name.split()[1:], "--help"]) == 0
    shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    for its in manual.paragraphs:
        lines = its.text.splitlines() if its.verbatim else wrapped(its.text)
        assert all(len(line) <= WIDTH for line in lines)
        assert "\n".join(f" {line}" for line in lines) in shown


def wrapped(text: str) -> list[str]:
    """Greedy lines of words, as terminals' programs wrap text."""
    lines = [""]
    for word in text.split():
        line = f"{lines[-1]} {word}" if lines[-1] else word
        if len(line) <= WIDTH:
            lines[-1] = line
        else:
            lines.append(word)
    return lines


def test_verbatim_paragraphs_keep_their_lines() -> None:
    text = "First\nline.\n\n\b\nmake\n  it\n\nThe\nrest."
    expected = [Paragraph("First line.", False), Paragraph("make\n  it", True), Paragraph("The rest.", False)]
    assert list(paragraphs(text)) == expected
    assert list(paragraphs(filled(text))) == expected
    assert filled("") == ""
