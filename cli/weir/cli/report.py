# SPDX-License-Identifier: Apache-2.0
"""`weir report`: the analysis of a finished run once more, from its files alone."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from weir.analysis import analyse, print_summary, write_report
from weir.cli.errors import InputError
from weir.cli.manifest import FILE_NAME


def report_command(run_dir: Path, *, as_json: bool, console: Console) -> int:
    """Rebuild `result.json` and `report.html` of `run_dir` and show the summary.

    Raises:
        InputError: `run_dir` is no run directory.
        RunFileError, CaptureError: a file of the run is missing or malformed.
    """
    if not (run_dir / FILE_NAME).is_file():
        raise InputError(f"{run_dir}: no {FILE_NAME} in it; valid: a run directory, such as runs/demo/latest")
    result = analyse(run_dir)
    report = write_report(run_dir)
    if as_json:
        print(result.model_dump_json(by_alias=True))
    else:
        print_summary(result, report, console)
    return 0
