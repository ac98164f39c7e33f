# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from weir.analysis.result import analyse
from weir.cli.terminal.result import summary
from weir_tests.analysis.synthetic_run import write_run


def test_terminal_shows_flows_pairs_and_the_report(tmp_path: Path) -> None:
    result = analyse(tmp_path, write_run(tmp_path, seconds=8))
    console = Console(width=160, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(summary(result, tmp_path / "report.html"))
    shown = capture.get()
    assert result.headline in shown
    for pair in result.pairs:
        verdict = pair.verdict.replace("_", " ")
        said = f"detector {pair.detector} says {verdict}, the truth is {pair.truth}: "
        assert f"phase {pair.phase}, measured1 and measured2: {said}" in " ".join(shown.split())
    assert {pair.phase for pair in result.pairs} == {"shared", "separate"}
    assert f"Report: {tmp_path / 'report.html'}" in shown
    for flow in result.flows:
        assert re.search(rf"{flow.name}.*{flow.sent:,}.*{flow.reported_drops:,}.*0\s*$", shown, re.MULTILINE)
