# SPDX-License-Identifier: Apache-2.0
"""Captures are deleted after the analysis if the experiment keeps results only; reports and results stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.rundir.directory import RunDirectory
from weir.runner.kept import drop_captures

EXPERIMENT = """\
name: one
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""


@pytest.mark.parametrize(
    ("more", "stays"),
    [
        ("", True),
        ("capture: {keep: all}", True),
        ("capture: {keep: results}", False),
    ],
)
def test_the_experiment_says_whether_captures_stay(tmp_path: Path, more: str, stays: bool) -> None:
    files = RunDirectory(tmp_path)
    files.config.write_text(EXPERIMENT + more)
    files.captures.mkdir()
    for path in (files.capture("a"), files.telemetry, files.sockets, files.result):
        path.touch()
    drop_captures(tmp_path)
    assert files.captures.exists() == stays
    assert all(path.exists() for path in (files.telemetry, files.sockets, files.result))
    drop_captures(tmp_path)  # also where none is left
