# SPDX-License-Identifier: Apache-2.0
"""`weir schema`: prints the JSON Schema of experiment or campaign files."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from weir.cli import options


def schema(
    campaigns: Annotated[bool, typer.Option("--campaign", help="Of campaign files instead.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Print the JSON Schema of experiment files, for editors and programs (JSON with or without --json)."""
    if campaigns:
        from weir.campaign.config import campaign_schema_text

        sys.stdout.write(campaign_schema_text())
        return 0
    from weir.controlplane.config import schema_text

    sys.stdout.write(schema_text())
    return 0
