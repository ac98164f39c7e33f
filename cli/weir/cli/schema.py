# SPDX-License-Identifier: Apache-2.0
"""`weir schema`: prints the JSON Schema of experiment, campaign and testbed files, and of summaries."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from weir.cli import options
from weir.cli.errors import InputError


def schema(
    campaigns: Annotated[bool, typer.Option("--campaign", help="Of campaign files instead.")] = False,
    testbeds: Annotated[bool, typer.Option("--testbed", help="Of testbed files instead.")] = False,
    summaries: Annotated[
        bool, typer.Option("--summary", help="Of the summary.json of campaigns instead.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Print the JSON Schema of experiment files, for editors and programs (JSON with or without --json)."""
    if campaigns + testbeds + summaries > 1:
        raise InputError("--campaign, --testbed, --summary: one file has one schema; valid: one of them")
    if summaries:
        from weir.campaign.summary.model import summary_schema_text

        sys.stdout.write(summary_schema_text())
    elif campaigns:
        from weir.campaign.config import campaign_schema_text

        sys.stdout.write(campaign_schema_text())
    elif testbeds:
        from weir.testbed.inventory import schema_text as testbed_schema_text

        sys.stdout.write(testbed_schema_text())
    else:
        from weir.controlplane.config import schema_text

        sys.stdout.write(schema_text())
    return 0
