# SPDX-License-Identifier: Apache-2.0
"""Reads `result.json` of an analysed run."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from weir.analysis.models import Result
from weir.rundir.directory import RunDirectory
from weir.rundir.errors import RunFileError


def read_result(run_dir: Path) -> Result:
    """The result of an analysed run; raises RunFileError with file and key."""
    path = RunDirectory(run_dir).result
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RunFileError(f"{path}: not found; the analysis of the run writes it") from None
    try:
        return Result.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise RunFileError(f"{path}: {where}: {first['msg']}") from error
