# SPDX-License-Identifier: Apache-2.0
"""The folder of a campaign: the names of what is in it.

`weir.campaign.store` fills it and says when a run counts.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
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
LOCK = ".lock"
"""Whoever changes the folder's runs holds a lock on this file."""
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


@contextmanager
def without_campaign(folder: Path) -> Iterator[None]:
    """Keep the campaign of a folder, if it is that of one, from starting until the end of the block.

    Raises BlockingIOError if it is running.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
