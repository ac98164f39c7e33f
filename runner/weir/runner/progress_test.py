# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io

import pytest

from weir.runner.progress import LineProgress, Step


def test_steps_cross_as_lines() -> None:
    stream = io.StringIO()
    progress = LineProgress(stream)
    progress.step('building "hosts"\nand links')
    with progress.phase("main", 2.5):
        progress.step("inside")
    steps = [Step.of(line) for line in stream.getvalue().splitlines()]
    assert steps == [
        Step('building "hosts"\nand links'),
        Step("phase main: flows for 2.5 s"),
        Step("inside"),
    ]


@pytest.mark.parametrize("line", ["", "a warning of a library", "[]", "7", '"text"', '{"other": 1}', "{}"])
def test_any_other_line_is_no_step(line: str) -> None:
    assert Step.of(line) is None
