# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

import pytest

from weir.cli.main import run_cli


def make_run(folder: Path, reports: bytes) -> Path:
    folder.mkdir()
    (folder / "telemetry.parquet").write_bytes(reports)
    (folder / "result.json").write_text("{}")
    return folder


def test_runs_with_the_same_bytes_are_identical_and_others_name_their_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = make_run(tmp_path / "a", b"one"), make_run(tmp_path / "b", b"one")
    third = make_run(tmp_path / "c", b"two")
    assert run_cli(["digest", str(first), str(second)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == lines[1].split("  ")[0]
    assert lines[2] == "the 2 runs are identical"
    assert run_cli(["digest", str(first), str(second), str(third), "--files"]) == 1
    shown = capsys.readouterr().out
    assert shown.endswith("\nthese files differ: telemetry.parquet\n")
    assert shown.count("  telemetry.parquet\n") == 3
    assert run_cli(["digest", str(first), str(third), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["differing"] == ["telemetry.parquet"]
    assert [run["run"] for run in answer["runs"]] == [str(first), str(third)]


def test_a_folder_without_a_result_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["digest", str(tmp_path)]) != 0
    assert capsys.readouterr().err.startswith(f"weir: {tmp_path}/result.json: not found; ")
