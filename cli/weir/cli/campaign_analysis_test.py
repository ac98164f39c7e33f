# SPDX-License-Identifier: Apache-2.0
"""An analysis that only takes spare time ends on a busy machine too."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weir.cli.campaign_analysis import analyse_in_spare_time
from weir_tests.analysis.tcp_capture import write_run

# Long enough for any test, and an end if the test is killed.
BURN = "import time; end = time.monotonic() + 120\nwhile time.monotonic() < end: pass"


@contextmanager
def busy_processors() -> Iterator[None]:
    """Other programs want more than all processors."""
    others = [
        subprocess.Popen([sys.executable, "-S", "-c", BURN], start_new_session=True)
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run without results."""
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_run(tmp_path)
    return tmp_path


def test_an_analysis_makes_the_results_in_spare_time(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    campaign, run = socket.socketpair()
    with campaign, run:
        assert analyse_in_spare_time(run_dir, run) == 0
    assert (run_dir / "result.json").is_file()
    assert "anew" not in capfd.readouterr().err


def test_an_analysis_that_gets_no_time_starts_anew_when_no_run_measures(
    run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    campaign, run = socket.socketpair()
    with campaign, run, busy_processors():
        campaign.send(b".")
        assert analyse_in_spare_time(run_dir, run) == 0
    assert (run_dir / "result.json").is_file()
    assert "analysing anew" in capfd.readouterr().err


def test_the_error_of_an_analysis_is_reported(run_dir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (run_dir / "manifest.json").write_text("{")
    campaign, run = socket.socketpair()
    with campaign, run:
        assert analyse_in_spare_time(run_dir, run) != 0
    assert "manifest.json" in capfd.readouterr().err
