# SPDX-License-Identifier: Apache-2.0
"""Manifests of older and newer versions are readable, and keep all fields when they are rewritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weir.rundir.directory import RunDirectory
from weir.rundir.errors import RunFileError
from weir.rundir.manifest import Manifest, Policer, read_manifest
from weir.rundir.manifest_file import ManifestFile

RECORDED = Path(__file__).parents[2] / "weir_tests" / "rundir" / "manifest-0.1.0.json"
"""The manifest of a demo run by version 0.1.0, which wrote it without these models."""


def run_dir(folder: Path, text: str) -> Path:
    RunDirectory(folder).manifest.write_text(text)
    return folder


def test_a_recorded_manifest_is_rewritten_byte_for_byte(tmp_path: Path) -> None:
    file = ManifestFile.load(run_dir(tmp_path, RECORDED.read_text()))
    file.write()
    assert RunDirectory(tmp_path).manifest.read_text() == RECORDED.read_text()


def test_a_recorded_manifest_is_parsed(tmp_path: Path) -> None:
    manifest = read_manifest(run_dir(tmp_path, RECORDED.read_text()))
    assert manifest.complete
    shared, separate = manifest.phases
    assert [policer.rate_bps for policer in shared.policers] == [40_000_000]
    assert [policer.name for policer in separate.policers] == ["left", "right"]
    assert [pair.truth for phase in manifest.phases for pair in phase.pairs] == ["shared", "separate"]
    assert manifest.switch.stats is not None
    assert manifest.scheduling is not None


def test_fields_of_a_newer_version_are_kept(tmp_path: Path) -> None:
    text = json.loads(RECORDED.read_text())
    text["phases"][0]["policers"][0]["from_later"] = {"a": [1, 2.5]}
    file = ManifestFile.load(run_dir(tmp_path, json.dumps(text)))
    file.end("failed", "disk full")
    again = json.loads(RunDirectory(tmp_path).manifest.read_text())
    assert again["phases"] == text["phases"]
    assert (again["complete"], again["error"]) == (False, "disk full")


def test_a_field_that_was_not_set_is_not_written() -> None:
    policer = Policer(name="p", index=0, rate_bps=1000, burst_bytes=1500)
    assert policer.model_dump(exclude_unset=True) == {
        "name": "p",
        "index": 0,
        "rate_bps": 1000,
        "burst_bytes": 1500,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "manifest.json: schema: Field required"),
        ('{"schema": 2, "name": "x", "run_id": "y"}', "manifest.json: schema: Input should be 1"),
        ('{"schema": 1, "name": "x", "run_id": "y", "phases": [{}]}', "phases.0.name: Field required"),
        ("no JSON", "manifest.json: top level: Invalid JSON"),
    ],
)
def test_a_malformed_manifest_is_refused_with_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RunFileError, match=message):
        read_manifest(run_dir(tmp_path, text))


def test_a_manifest_that_is_not_utf_8_is_refused_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b'{"name": "\xff"}')
    with pytest.raises(RunFileError, match=r"manifest\.json: top level: Invalid JSON"):
        read_manifest(tmp_path)


def test_a_directory_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"manifest\.json: not found; a run directory holds"):
        ManifestFile.load(tmp_path)


def test_a_new_manifest_writes_only_the_fields_that_were_set() -> None:
    assert Manifest(schema=1, name="x", run_id="y").model_dump(by_alias=True, exclude_unset=True) == {
        "schema": 1,
        "name": "x",
        "run_id": "y",
    }
