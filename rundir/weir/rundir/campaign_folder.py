# SPDX-License-Identifier: Apache-2.0
"""The folder of a campaign: the names of what is in it.

`weir.campaign.store` fills it and says when a run counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.rundir.directory import RunDirectory

CAMPAIGN_FILE = "campaign.yaml"
PAGE = "index.html"
SUMMARY = "summary.json"
"""The page's figures for programs (docs/spec/campaign-summary.md)."""
PAGE_FOLDERS = ("data", "figures")
"""Tables and figures of the page."""
PARTIAL, FAILED, INVALID = ".partial", "failed", "invalid"
LATEST = "latest"
"""A link to a run, in the folder of an experiment."""


@dataclass(frozen=True, slots=True)
class CampaignFolder:
    """Paths in the folder of one campaign."""

    path: Path

    @property
    def config(self) -> Path:
        """The campaign file, as given."""
        return self.path / CAMPAIGN_FILE

    @property
    def summary(self) -> Path:
        """The page's figures for programs."""
        return self.path / SUMMARY

    def runs(self) -> list[Path]:
        """Its complete runs, by name; runs under way, failed and set aside are in other folders."""
        paths = (path for path in self.path.iterdir() if path.name != LATEST)
        return sorted(path for path in paths if RunDirectory(path).manifest.is_file())

    def own_files(self) -> Iterator[Path]:
        """The campaign file, its summary, and the page with its tables and figures; those that exist."""
        for name in (CAMPAIGN_FILE, PAGE, SUMMARY):
            if (self.path / name).is_file():
                yield self.path / name
        for folder in PAGE_FOLDERS:
            yield from sorted(path for path in (self.path / folder).rglob("*") if path.is_file())
