# SPDX-License-Identifier: Apache-2.0
"""The view of a running campaign on a terminal and elsewhere."""

import io
from pathlib import Path

from rich.console import Console

from weir.campaign.estimate import Estimate
from weir.campaign.load import parse_campaign
from weir.cli.terminal.campaign import LiveView

TEXT = """
name: many
matrix: {rate: [1 Mbit/s, 2 Mbit/s]}
hosts: {client: {}, server: {}}
flows: [{name: one, from: server, to: client, duration: 1 s}]
policers: [{name: p, rate: $rate, burst: 20 kB, match: [{to: client}]}]
"""


def shown(*, plain: bool, terminal: bool) -> str:
    """The lines that the view prints when a run starts and when it fails."""
    campaign = parse_campaign(TEXT)
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=60)
    with LiveView(campaign, {}, 1, Estimate(), console, plain=plain) as view:
        view.run_started(campaign.runs[0])
        view.run_failed(campaign.runs[0], Path("failed"), "no [reason]", again=False)
    return file.getvalue()


def test_a_terminal_has_a_bar_below_the_lines_unless_they_are_to_be_plain() -> None:
    line = "[0/2] 1 Mbit/s #1: FAILED and will not be retried: no [reason]; its logs are in failed"
    bar = "━━━"
    with_bar = shown(plain=False, terminal=True)
    assert line in with_bar
    assert bar in with_bar
    plain = shown(plain=True, terminal=True)
    assert line in plain
    assert bar not in plain.replace(line, "")
    assert shown(plain=False, terminal=False) == line + "\n"
