# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.kernel.scratch import scratch_folder


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
    with pytest.raises(KeyboardInterrupt), scratch_folder(tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_be_moved_away(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "work") as folder:
        folder.rename(tmp_path / "done")
    assert (tmp_path / "done").is_dir()
    assert list((tmp_path / "work").iterdir()) == []
