# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time
from multiprocessing import active_children
from pathlib import Path

from weir.analysis.paths.workers import in_processes


def test_what_was_begun_ends_with_the_iterator(tmp_path: Path) -> None:
    begun, done = tmp_path / "begun", tmp_path / "done"
    slow = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(20)"
    # Workers import what they run by name, so it is code that they execute.
    results = in_processes(exec, ["", *[f"{slow}; pathlib.Path({str(done)!r}).touch()"] * 5], processes=2)
    next(results)
    deadline = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert begun.exists()
    results.close()
    assert not done.exists()
    assert not active_children()


def test_all_results_come() -> None:
    assert sorted(in_processes(abs, [-3, -2, -1], processes=2)) == [1, 2, 3]
