# SPDX-License-Identifier: Apache-2.0
"""The directory of a new run: its lock, and the record of its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weir.rundir.directory import is_held
from weir.rundir.manifest import State, read_manifest
from weir.rundir.manifest_file import ManifestFile
from weir.runner.prepare import new_run_of

TEXT = """
name: short
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""


@contextmanager
def new_run(runs: Path) -> Iterator[Path]:
    with new_run_of(TEXT, Path("short.yaml"), runs) as (_experiment, run_dir):
        yield run_dir


def test_a_new_run_is_held_until_its_maker_is_done_with_it(tmp_path: Path) -> None:
    with new_run(tmp_path) as run_dir:
        assert is_held(run_dir)
        assert (tmp_path / "short" / "latest").resolve() == run_dir
    assert not is_held(run_dir)


@pytest.mark.parametrize(
    ("error", "state", "recorded"),
    [
        (KeyboardInterrupt(), "interrupted", "the run was stopped early"),
        (OSError("no sandbox"), "failed", "OSError: no sandbox"),
    ],
)
def test_what_ends_a_run_before_its_sandbox_is_in_the_manifest(
    tmp_path: Path, error: BaseException, state: str, recorded: str
) -> None:
    with pytest.raises(type(error)), new_run(tmp_path) as run_dir:
        raise error
    manifest = read_manifest(run_dir)
    assert (manifest.state, manifest.error, manifest.complete) == (state, recorded, False)
    assert not is_held(run_dir)


@pytest.mark.parametrize("state", ["complete", "failed"])
def test_a_stop_of_the_analysis_does_not_change_how_the_run_ended(tmp_path: Path, state: State) -> None:
    def end_and_stop(run_dir: Path) -> None:
        ManifestFile.load(run_dir).end(state)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), new_run(tmp_path) as run_dir:
        end_and_stop(run_dir)
    assert read_manifest(run_dir).state == state
