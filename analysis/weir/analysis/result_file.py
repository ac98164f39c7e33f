# SPDX-License-Identifier: Apache-2.0
"""Reads `result.json` of an analysed run."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from weir.analysis.models import Result
from weir.rundir.result_data import result_data, result_error


def read_result(run_dir: Path) -> Result:
    """The result of an analysed run; raises RunFileError with file and key."""
    try:
        return Result.model_validate(result_data(run_dir))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise result_error(run_dir, f"{where}: {first['msg']}") from error
