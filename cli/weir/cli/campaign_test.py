# SPDX-License-Identifier: Apache-2.0
"""Notes of `weir campaign` before it makes runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir.cli.main import run_cli

TEXT = """
name: tiny
matrix: {who: {one: {measured: true}, nobody: {measured: false}}}
hosts: {client: {delay: 5 ms}, server: {delay: 5 ms}}
flows:
  - {name: mine, from: server, to: client, duration: 1 s, measured: $measured}
  - {name: other, from: server, to: client, duration: 1 s}
"""


@pytest.mark.parametrize(
    ("only", "says"),
    [
        ((), "no flow of 1 cell has `measured: true`, so its runs are listed, and in no figure"),
        (("--only", "who=nobody"), "no flow of the campaign has `measured: true`, so its runs"),
        (("--only", "who=one"), ""),
    ],
)
def test_cells_without_a_measured_flow_are_named_before_hours_of_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], only: tuple[str, ...], says: str
) -> None:
    file = tmp_path / "tiny.yaml"
    file.write_text(TEXT)
    assert run_cli(["campaign", str(file), "--dry-run", "--runs", str(tmp_path / "runs"), *only]) == 0
    error = capsys.readouterr().err
    assert re.sub(r"\s+", " ", error).startswith(f"weir: {says}") if says else error == ""
