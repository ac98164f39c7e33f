# SPDX-License-Identifier: Apache-2.0
"""`weir doctor --target tofino --address bfruntime://…`: checks a bf_switchd before it is written to."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weir.cli.errors import InputError

if TYPE_CHECKING:
    from weir.controlplane.bfruntime.check import Finding

TARGETS = ("tofino", "tofino2")
_TIMEOUT_S = 10.0


def switch_command(
    target: str | None, address: str | None, device_id: int, *, as_json: bool, console: Console
) -> int:
    """Check the switch and print the checks; returns exit code 1 if a required one fails.

    Raises:
        InputError: target and address do not go together, or are not those of a bf_switchd.
    """
    from weir.controlplane.bfruntime.check import check_switch
    from weir.controlplane.config.values import BFRUNTIME, bfruntime_endpoint

    if target not in TARGETS:
        raise InputError(f"--target {target or 'is missing'}; valid: {', '.join(TARGETS)}")
    try:
        endpoint = bfruntime_endpoint(address or "")
    except ValueError as error:
        raise InputError(f"--address: {error}") from error
    if endpoint is None:
        raise InputError(f"--address {address or 'is missing'}; valid: such as {BFRUNTIME}192.0.2.1")
    findings = asyncio.run(check_switch(endpoint, device_id, target, _TIMEOUT_S))
    return show(findings, as_json=as_json, console=console)


def show(findings: list[Finding], *, as_json: bool, console: Console) -> int:
    """Print the findings; returns exit code 1 if something required is missing."""
    healthy = all(finding.ok for finding in findings if finding.required)
    if as_json:
        print(json.dumps({"schema": 1, "ok": healthy, "checks": [asdict(one) for one in findings]}, indent=1))
        return 0 if healthy else 1
    table = Table(box=None, pad_edge=False)
    for heading in ("", "check", "found"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        bad = "[red]missing[/red]" if finding.required else "optional"
        table.add_row("[green]ok[/green]" if finding.ok else bad, finding.name, Text(finding.found))
    console.print(table)
    for finding in findings:
        if not finding.ok and finding.mend:
            console.print(f"{finding.name}: ", end="", highlight=False, markup=False)
            console.print(finding.mend, style="bold", highlight=False, markup=False, soft_wrap=True)
    console.print("Ready." if healthy else "[red]Something required is missing.[/red]")
    return 0 if healthy else 1
