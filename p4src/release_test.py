# SPDX-License-Identifier: Apache-2.0
"""A folder for a release, with files of the compiler's names."""

from __future__ import annotations

import json
from pathlib import Path

import release
import tofino

CHIP, NAME = tofino.TOFINO1, "tofino1"
MADE_OF = {"compiler": "p4c-barefoot 1", "sources": {"a.p4": "00"}}


def compiled(folder: Path, text: str = "") -> Path:
    for path in (*release.files(NAME, CHIP), "frontend-ir.json"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"{path}{text}")
    return folder


def test_only_what_is_loaded_is_left_and_other_files_of_the_folder_stay(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "notes").write_text("mine")
    release.leave(NAME, CHIP, compiled(tmp_path / "compiled"), folder, MADE_OF)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {*release.files(NAME, CHIP), release.PROVENANCE, "notes"}
    record = json.loads((folder / release.PROVENANCE).read_text())
    assert {"compiler": record["compiler"], "sources": record["sources"]} == MADE_OF


def test_a_release_of_other_sources_or_with_changed_files_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "release"
    assert not release.is_left(NAME, CHIP, folder, MADE_OF)
    release.leave(NAME, CHIP, compiled(tmp_path / "compiled"), folder, MADE_OF)
    assert release.is_left(NAME, CHIP, folder, MADE_OF)
    assert not release.is_left(NAME, CHIP, folder, MADE_OF | {"compiler": "p4c-barefoot 2"})
    (folder / "pipe" / "tofino.bin").write_text("changed")
    assert not release.is_left(NAME, CHIP, folder, MADE_OF)
    release.leave(NAME, CHIP, compiled(tmp_path / "newer", "newer"), folder, MADE_OF)
    assert release.is_left(NAME, CHIP, folder, MADE_OF)
    (folder / "manifest.json").unlink()
    assert not release.is_left(NAME, CHIP, folder, MADE_OF)


def test_a_schema_by_line_is_the_same_schema() -> None:
    tree = {"schema_version": "1.0.0", "tables": [{"name": "a"}, {"name": "b"}], "learn_filters": []}
    text = tofino.schema_by_line(json.dumps(tree, indent=4))
    assert json.loads(text) == tree
    assert '\n{"name":"a"},\n{"name":"b"}\n' in text
