# SPDX-License-Identifier: Apache-2.0
"""On full and read-only disks an error is one line that names the file, and existing data is kept."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weir.cli.errors import EXIT_DISK
from weir.cli.failures import report_error
from weir.cli.watch import EventLog
from weir.controlplane.config import load_experiment
from weir.rundir.manifest_file import ManifestFile
from weir.rundir.whole_files import write_whole
from weir.runner.prepare import prepare

DEMO = Path(__file__).parents[3] / "experiments" / "demo.yaml"


@pytest.fixture(name="full_disk")
def _full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_bytes(self: Path, data: bytes) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")  # without a file name, as from write(2)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)


@pytest.mark.usefixtures("full_disk")
def test_a_failed_write_on_a_full_disk_names_the_file_and_keeps_the_old_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    with pytest.raises(OSError, match="No space left") as error:
        write_whole(path, b"new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
    assert report_error(error.value) == EXIT_DISK
    assert capsys.readouterr().err == f"weir: {path}: No space left on device\n"


def test_a_run_that_cannot_write_its_final_manifest_is_not_complete(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prepare(tmp_path, load_experiment(DEMO), DEMO.read_bytes(), {})
    manifest = ManifestFile.load(tmp_path)
    request.getfixturevalue("full_disk")
    manifest.end_if_possible("failed", "disk full")
    assert manifest.state == "failed"
    assert ManifestFile.load(tmp_path).manifest.complete is False


def test_events_that_cannot_be_written_are_kept_and_reported_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = EventLog(Path("/dev/full"))
    log.write("one")
    log.write("two")
    log.close()
    assert capsys.readouterr().err == "weir: /dev/full: No space left on device; its events are kept\n"


def test_events_are_appended_as_they_happen(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("before\n")
    log = EventLog(path)
    log.write("one")
    assert path.read_text() == "before\none\n"
    log.close()


@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}])
@pytest.mark.parametrize("argument", ["--version", "--man"])  # less than a buffer, and more
def test_standard_output_on_a_full_disk_is_named(argument: str, buffering: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from weir.cli.main import main; main()", argument],
            env=environment | buffering,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (10, "weir: standard output: No space left on device\n")
