# SPDX-License-Identifier: Apache-2.0
"""Runs of an archive get their places all together or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from weir.archive import unpack
from weir.archive.errors import ArchiveError
from weir.archive.unpack import import_archive
from weir.rundir.campaign_folder import LOCK
from weir_tests.archive.zips import FILES, MANIFEST, tree, written, zip_of

TWO = dict(FILES) | {
    "runs/demo/r2/manifest.json": MANIFEST,
    "runs/other/campaign.yaml": b"name: other\n",
    "runs/other/index.html": b"page",
    "runs/other/data/loss.csv": b"loss\n",
    "runs/other/5_r001/manifest.json": MANIFEST,
}
WHOLE = {name.removeprefix("runs/"): data for name, data in TWO.items() if name.startswith("runs/")}


@pytest.fixture(name="archive")
def _archive(tmp_path: Path) -> Path:
    return written(tmp_path / "a.zip", zip_of(TWO.items()))


def test_runs_and_campaigns_get_their_places(tmp_path: Path, archive: Path) -> None:
    steps: list[tuple[int, int]] = []
    imported = import_archive(archive, tmp_path / "deep" / "runs", progress=lambda *step: steps.append(step))
    assert tree(tmp_path / "deep" / "runs") == WHOLE
    assert [str(run.run.folder) for run in imported.runs] == ["demo/r1", "demo/r2", "other/5_r001"]
    assert [run.run.analysable for run in imported.runs] == [False, False, False]
    assert imported.campaigns == (tmp_path / "deep" / "runs" / "other",)
    assert steps == sorted(steps)
    assert steps[-1][0] <= steps[-1][1] == imported.size_bytes
    # Ordinary folders, which other users may read.
    assert (tmp_path / "deep" / "runs" / "demo" / "r1").stat().st_mode & 0o077


def test_runs_that_are_there_already_are_left_alone(tmp_path: Path, archive: Path) -> None:
    runs = tmp_path / "runs"
    import_archive(archive, runs)
    made = (runs / "demo" / "r1" / "manifest.json").stat().st_mtime_ns
    shutil.rmtree(runs / "demo" / "r2")
    imported = import_archive(archive, runs)
    assert [run.new for run in imported.runs] == [False, True, False]
    assert (runs / "demo" / "r1" / "manifest.json").stat().st_mtime_ns == made
    assert tree(runs) == WHOLE


@pytest.mark.parametrize("change", ["changed", "missing", "added", "link", "file", "page"])
def test_a_run_that_differs_is_refused_and_nothing_changes(
    tmp_path: Path, archive: Path, change: str
) -> None:
    runs = tmp_path / "runs"
    import_archive(archive, runs)
    shutil.rmtree(runs / "demo" / "r1")
    run = runs / "demo" / "r2"
    manifest = run / "manifest.json"
    if change == "changed":
        manifest.write_bytes(MANIFEST + b" ")
    elif change == "missing":
        manifest.unlink()
    elif change == "added":
        (run / "notes.txt").touch()
    elif change == "link":
        manifest.rename(tmp_path / "manifest.json")
        manifest.symlink_to(tmp_path / "manifest.json")
    elif change == "file":
        shutil.rmtree(run)
        run.touch()
    else:
        (runs / "other" / "index.html").write_text("another page")
    before = tree(runs)
    with pytest.raises(ArchiveError, match="valid: --runs with another directory"):
        import_archive(archive, runs)
    assert tree(runs) == before


def test_a_folder_in_which_a_campaign_is_running_gets_no_runs(tmp_path: Path, archive: Path) -> None:
    runs = tmp_path / "runs"
    (runs / "other").mkdir(parents=True)
    lock = os.open(runs / "other" / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        with pytest.raises(
            ArchiveError, match=r"other: `weir campaign` is running in it; valid: wait for it"
        ):
            import_archive(archive, runs)
        assert tree(runs) == {f"other/{LOCK}": b""}
    finally:
        os.close(lock)
    import_archive(archive, runs)
    assert tree(runs) == WHOLE | {f"other/{LOCK}": b""}


def test_a_link_in_place_of_an_experiment_is_not_followed(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError, match="a link or a file"):
        import_archive(archive, tmp_path / "runs")
    assert tree(tmp_path / "elsewhere") == {}
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["demo"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
@pytest.mark.parametrize("at", [0, 2, 4])
def test_an_import_that_is_stopped_while_it_moves_takes_everything_back(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, at: int
) -> None:
    moves = 0

    def sync(_path: Path) -> None:
        nonlocal moves
        moves += 1
        if moves > at:
            raise error

    monkeypatch.setattr(unpack, "sync_directory", sync)
    with pytest.raises(type(error)):
        import_archive(archive, tmp_path / "runs")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_an_import_that_is_stopped_while_it_unpacks_leaves_nothing(tmp_path: Path, archive: Path) -> None:
    def stop(done: int, _total: int) -> None:
        if done > len(MANIFEST):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_archive(archive, tmp_path / "runs", progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_too_little_room_is_said_before_anything_is_unpacked(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", ("total", "used", "free"))
    monkeypatch.setattr(unpack.shutil, "disk_usage", lambda _path: usage(100, 99, 1))
    with pytest.raises(OSError, match=r"No space left on device: .* bytes needed, 1 free") as error:
        import_archive(archive, tmp_path / "runs")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(tmp_path / "runs"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_what_a_killed_import_left_is_removed_unless_it_still_runs(tmp_path: Path, archive: Path) -> None:
    left, used = tmp_path / "runs" / ".import-left", tmp_path / "runs" / ".import-used"
    for folder in (left, used):
        (folder / "demo").mkdir(parents=True)
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        import_archive(archive, tmp_path / "runs")
        assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
            ".import-used",
            "demo",
            "other",
        ]
    finally:
        os.close(lock)
