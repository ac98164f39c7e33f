# SPDX-License-Identifier: Apache-2.0
"""Candidates for the completion of arguments in a shell. Imports little, since each press of Tab waits.

Only whole values are candidates. Where there are none, the shell completes names of files and folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from weir.controlplane.shipped import experiment_names, experiments_directory
from weir.rundir.campaign_folder import CAMPAIGN_FILE

DETECTORS = (
    *("policing", "policing-flach", "shared", "frame-memory", "bucket-level", "bucket-likelihood"),
    *("loss-correlogram", "buckets"),
    *("wehey_loss_trend", "rfc8382"),
    *("loss-shifted", "loss-blocks", "loss-spearman", "loss-kendall", "loss-pearson"),
    *("throughput-spearman", "throughput-kendall", "throughput-pearson"),
    *("delay-spearman", "delay-kendall", "delay-pearson"),
)
"""Names of all detectors, written out because importing the detectors takes seconds."""
_CAMPAIGN = re.compile(r"^(matrix|parts):", re.MULTILINE)


def experiments(incomplete: str) -> list[str]:
    """Names of shipped experiments, and YAML files."""
    return _matching(incomplete, [*_shipped(campaigns=False), *_yaml_files(incomplete)])


def campaigns(incomplete: str) -> list[str]:
    """Names of shipped campaigns, YAML files, and the second word of `weir campaign compare`."""
    return _matching(incomplete, ["compare", *_shipped(campaigns=True), *_yaml_files(incomplete)])


def run_directories(incomplete: str) -> list[str]:
    """Run directories in the typed folder, and those of `runs/`."""
    paths = [*_folder(incomplete).glob("*"), *Path("runs").glob("*/*")]
    return _matching(incomplete, (str(path) for path in paths if (path / "manifest.json").is_file()))


def runs_and_campaigns(incomplete: str) -> list[str]:
    """Run directories as above, and the folders of campaigns."""
    return _matching(incomplete, [*run_directories(incomplete), *campaign_folders(incomplete)])


def campaign_folders(incomplete: str) -> list[str]:
    """Folders of campaigns in the typed folder, and in `runs/`."""
    folders = [*_folder(incomplete).glob("*"), *Path("runs").glob("*")]
    return _matching(incomplete, (str(path) for path in folders if (path / CAMPAIGN_FILE).is_file()))


def archives(incomplete: str) -> list[str]:
    """Files that may be archives of runs."""
    return _matching(incomplete, (str(path) for path in _folder(incomplete).glob("*.zip") if path.is_file()))


def detectors(incomplete: str) -> list[str]:
    """Names of detectors."""
    return _matching(incomplete, DETECTORS)


def _shipped(*, campaigns: bool) -> Iterator[str]:
    for name in experiment_names():
        content = (experiments_directory() / f"{name}.yaml").read_text(encoding="utf-8")
        if (_CAMPAIGN.search(content) is not None) == campaigns:
            yield name


def _yaml_files(incomplete: str) -> list[str]:
    return [str(path) for path in _folder(incomplete).glob("*.y*ml") if path.is_file()]


def _folder(incomplete: str) -> Path:
    return Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent


def _matching(incomplete: str, candidates: Iterable[str]) -> list[str]:
    return sorted({candidate for candidate in candidates if candidate.startswith(incomplete)})
