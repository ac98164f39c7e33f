# SPDX-License-Identifier: Apache-2.0
"""`result.json` as JSON, for readers that need few of its keys, or read those of other versions too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weir.rundir.directory import RunDirectory
from weir.rundir.errors import RunFileError


def result_data(run_dir: Path) -> dict[str, Any]:
    """The result of an analysed run; raises RunFileError with file and reason."""
    try:
        data = json.loads(RunDirectory(run_dir).result.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise result_error(run_dir, "not found") from error
    except OSError as error:
        raise result_error(run_dir, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise result_error(run_dir, f"byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise result_error(run_dir, f"line {error.lineno}: no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or too many levels
        raise result_error(run_dir, f"no JSON: {error}") from error
    if not isinstance(data, dict):
        raise result_error(run_dir, "no JSON object")
    return data


def result_error(run_dir: Path, reason: str) -> RunFileError:
    """The error of a result that is missing or invalid."""
    files = RunDirectory(run_dir)
    valid = f"the result of a finished run, by weir report {run_dir}"
    if not files.manifest.exists():
        valid = "a run directory, such as runs/demo/latest"
    return RunFileError(f"{files.result}: {reason}; valid: {valid}")
