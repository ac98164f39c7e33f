# SPDX-License-Identifier: Apache-2.0
import tempfile
from pathlib import Path
from typing import Any

import pytest

from weir.rundir.directory import remove_if_not_held
from weir.rundir.scratch import scratch_folder


def test_folders_that_killed_processes_left_are_removed_and_nothing_else_is(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    (sources / "download-killed" / "usr").mkdir(parents=True)
    (sources / "linux.tar.xz").touch()
    (sources / "other").mkdir()
    with scratch_folder(sources, "download-") as first, scratch_folder(sources, "download-") as second:
        assert not (sources / "download-killed").exists()
        assert first.is_dir()
        assert second != first
    assert sorted(path.name for path in sources.iterdir()) == ["linux.tar.xz", "other"]


def test_a_folder_is_removed_when_its_work_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), scratch_folder(tmp_path, ""):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_be_moved_away(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "work", "") as folder:
        folder.rename(tmp_path / "done")
    assert (tmp_path / "done").is_dir()
    assert list((tmp_path / "work").iterdir()) == []


def test_a_folder_that_another_process_removes_before_it_is_held_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp
    made: list[Path] = []

    def make_and_lose_the_first(**where: Any) -> str:
        made.append(Path(make(**where)))
        if len(made) == 1:
            remove_if_not_held(made[0])
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose_the_first)
    with scratch_folder(tmp_path, "x-") as folder:
        assert (folder, folder.is_dir()) == (made[1], True)
        remove_if_not_held(folder)
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []
