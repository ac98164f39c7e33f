# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir.rundir.errors import RunFileError
from weir.rundir.result_data import result_data


def test_a_result_is_its_keys(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"pairs": []}')
    assert result_data(tmp_path) == {"pairs": []}


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (None, "not found"),
        (b"", "line 1: no JSON: Expecting value"),
        (b'{"pairs":\n [', "line 2: no JSON: Expecting value"),
        (b"\xff\xfe", "byte 0 is not UTF-8"),
        (b"[1]", "no JSON object"),
        (b"[" * 100_000, "no JSON: maximum recursion depth exceeded"),
        (b"1" * 5_000, "no JSON: Exceeds the limit"),
    ],
)
def test_a_result_that_cannot_be_used_is_named_with_the_reason(
    written: bytes | None, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "manifest.json").touch()
    path = tmp_path / "result.json"
    if written is not None:
        path.write_bytes(written)
    with pytest.raises(RunFileError, match=f"^{re.escape(f'{path}: {reason}')}.*; valid: the result of a "):
        result_data(tmp_path)


def test_a_folder_that_is_no_run_is_not_told_to_be_analysed(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"result\.json: not found; valid: a run directory, such as "):
        result_data(tmp_path)
