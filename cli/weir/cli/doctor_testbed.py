# SPDX-License-Identifier: Apache-2.0
"""`weir doctor --testbed FILE`: checks the hosts of a testbed, and names the command that mends each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from weir.testbed.check import HostReport


def testbed_command(file: Path, *, as_json: bool, console: Console) -> int:
    """Check all hosts and print the checks; returns exit code 1 if a required one fails."""
    from weir.testbed.check import check_testbed
    from weir.testbed.load import load_testbed

    return show(asyncio.run(check_testbed(load_testbed(file))), as_json=as_json, console=console)


def show(reports: Sequence[HostReport], *, as_json: bool, console: Console) -> int:
    """Print the reports of hosts; returns exit code 1 if something required is missing."""
    healthy = all(report.ok for report in reports)
    if as_json:
        print(json.dumps({"schema": 1, "ok": healthy, "hosts": [_as_json(one) for one in reports]}, indent=1))
        return 0 if healthy else 1
    console.print(_table(reports))
    for report in reports:
        for finding in report.findings:
            if not finding.ok and finding.mend:
                text = f"{report.name}: {finding.name}: "
                console.print(text, end="", highlight=False, markup=False)
                console.print(finding.mend, style="bold", highlight=False, markup=False, soft_wrap=True)
    console.print("Ready." if healthy else "[red]Something required is missing.[/red]")
    return 0 if healthy else 1


def _as_json(report: HostReport) -> dict[str, object]:
    clock = None if report.clock is None else {**asdict(report.clock), "error_ns": report.clock.error_ns}
    checks = [asdict(finding) for finding in report.findings]
    return {"name": report.name, "ok": report.ok, "clock_offset": clock, "checks": checks}


def _table(reports: Sequence[HostReport]) -> Table:
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("", "host", "check", "found"):
        table.add_column(heading, overflow="fold")
    for report in reports:
        for finding in report.findings:
            bad = "[red]missing[/red]" if finding.required else "optional"
            mark = "[green]ok[/green]" if finding.ok else bad
            table.add_row(mark, Text(report.name), Text(finding.name), Text(finding.found))
    return table
