# SPDX-License-Identifier: Apache-2.0
"""The outer half of a run, with a stand-in for the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weir.controlplane.config import parse_experiment
from weir.rundir.directory import is_held
from weir.runner import outer, virtual
from weir.runner.outer import run_prepared
from weir.runner.prepare import TimeChoice, prepare, virtual_time_of
from weir_tests.kernel.made_up_kernels import add_kernel

TEXT = """
name: short
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""


@pytest.fixture(name="run_dir", params=["real", "virtual"])
def _run_dir(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    add_kernel(tmp_path / "weir" / "kernels", "6.12", ("cubic",))
    experiment = parse_experiment(TEXT, "short.yaml")
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    made_in = virtual_time_of(experiment, TimeChoice(request.param))
    prepare(run_dir, experiment, TEXT.encode(), {}, virtual_time=made_in)
    return run_dir


def test_the_sandbox_gets_the_lock_of_the_directory_which_ends_with_it(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Path] = []

    def sandbox(*_arguments: Any, kept_open: list[int], **_options: Any) -> int:
        kept.extend(Path(f"/proc/self/fd/{descriptor}").readlink() for descriptor in kept_open)
        assert is_held(run_dir)
        return 1

    monkeypatch.setattr(outer, "run_in_sandbox", sandbox)
    monkeypatch.setattr(virtual, "run_in_sandbox", sandbox)
    assert not is_held(run_dir)
    run_prepared(run_dir, "weir.runner.sandboxed")
    assert kept == [run_dir]
    assert not is_held(run_dir)


@pytest.mark.parametrize(
    ("status", "state", "problem"),
    [
        (130, "interrupted", None),
        (143, "interrupted", None),
        (137, "failed", "the run died with exit code 137"),
    ],
)
def test_the_outer_half_records_the_end_of_a_program_that_did_not(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, status: int, state: str, problem: str | None
) -> None:
    monkeypatch.setattr(outer, "run_in_sandbox", lambda *_arguments, **_options: status)
    monkeypatch.setattr(virtual, "run_in_sandbox", lambda *_arguments, **_options: status)
    ended = run_prepared(run_dir, "weir.runner.sandboxed")
    assert (ended.state, ended.exit_status, ended.problem) == (state, status, problem)
