# SPDX-License-Identifier: Apache-2.0
"""The check of a run after a fault: it is whole or says that it is not, and its books balance."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from weir.rundir.directory import RunDirectory

_FAULT = re.compile(r"Traceback|internal error|\.py:\d+: \w*Warning: ")


@dataclass(frozen=True, slots=True)
class Judged:
    """One run: what it says of itself, and what is wrong with that."""

    said: str
    wrong: tuple[str, ...] = ()


def fault_of_program(text: str) -> str:
    """The first line of a command's output that tells of a fault of its own, and the last line; or empty."""
    found = next((line for line in text.splitlines() if _FAULT.search(line)), "")
    return found and " … ".join(dict.fromkeys((found, text.strip().splitlines()[-1])))


def judge_run(run: Path, weir: Path, *, ended_well: bool) -> Judged:
    """Whether a run is whole, or says that it is not.

    `ended_well`: the command that made it had exit code 0. A run that its own command could not finish,
    because that was killed, must say so when it is reported on.
    """
    files = RunDirectory(run)
    wrong = list(_unreadable(run))
    if not files.manifest.is_file():
        return Judged("no manifest", (*wrong, *(["exit code 0 without a manifest"] if ended_well else [])))
    manifest = json.loads(files.manifest.read_text())
    state = manifest["state"]
    if not ended_well:
        reported = subprocess.run(
            [weir, "report", run, "--json"], capture_output=True, text=True, check=False
        )
        if fault := fault_of_program(reported.stderr):
            wrong.append(f"weir report: {fault}")
        if reported.returncode != 0:
            if not reported.stderr.strip():
                wrong.append(f"weir report fails without a word (exit code {reported.returncode})")
            return Judged(f"{state}, cannot be analysed", tuple(wrong))
        result = json.loads(reported.stdout)
    elif files.result.is_file():
        result = json.loads(files.result.read_text())
    else:
        return Judged(state, (*wrong, "exit code 0 without a result"))
    wrong += _books(result, state)
    if result["valid"]:
        return Judged("whole", tuple(wrong))
    reasons = "; ".join(result["invalid_reasons"])
    return Judged(
        f"{state}, invalid: {reasons}", (*wrong, *([] if reasons else ["invalid without a reason"]))
    )


def _books(result: dict[str, Any], state: str) -> Iterator[str]:
    if not result["valid"]:
        return
    if state != "complete" or not result["complete"]:
        yield f"valid, but its state is {state}"
    for flow in result["flows"]:
        explained = (
            *(flow["reported_drops"], flow["reports_lost"], flow["emulated_losses"]),
            *(flow["in_flight"], flow["unexplained"]),
        )
        if flow["sent"] - flow["received"] != sum(explained) or flow["unexplained"] != 0:
            yield f"valid, but the books of {flow['id']} do not balance: {flow}"


def _unreadable(run: Path) -> Iterator[str]:
    """Files under their final names that are not whole; logs are what programs had said when they ended."""
    logs = RunDirectory(run).logs
    for path in sorted(set(run.rglob("*")) - set(logs.rglob("*"))):
        try:
            if path.suffix == ".json":
                json.loads(path.read_text())
            elif path.suffix == ".parquet":
                pq.read_metadata(path)
        except FileNotFoundError:
            continue
        except (ValueError, OSError) as error:  # pyarrow's errors are ValueErrors
            yield f"{path.relative_to(run)} is not whole: {error}"
