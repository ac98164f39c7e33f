# SPDX-License-Identifier: Apache-2.0
"""The purpose of each file of a run: for the metadata and the README of an archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Role:
    """The role of a file."""

    media_type: str
    what: str


_JSON, _PARQUET = "application/json", "application/vnd.apache.parquet"
_PCAP, _HTML, _YAML, _TEXT = "application/vnd.tcpdump.pcap", "text/html", "application/yaml", "text/plain"

OF_RUNS: dict[str, Role] = {
    "config.yaml": Role(_YAML, "the experiment, as it was given to weir"),
    "replays/*": Role(_TEXT, "a replay file of the experiment"),
    "classifiers/*": Role(_JSON, "a classifier that a host's tuner uses"),
    "manifest.json": Role(_JSON, "versions, seeds, phases, effective rates, clocks, counters of the switch"),
    "pcap/*": Role(_PCAP, "the packets of a host's interface, cut off after their headers"),
    "telemetry.parquet": Role(_PARQUET, "the switch's reports: a row per packet that it dropped"),
    "collector.json": Role(_JSON, "how many reports the collector received and how many were lost"),
    "sockets.parquet": Role(_PARQUET, "samples of the senders' TCP state"),
    "tuning.parquet": Role(_PARQUET, "the decisions of the hosts' tuners"),
    "result.json": Role(_JSON, "the result of the analysis"),
    "flows.parquet": Role(_PARQUET, "the result's flows, a row each"),
    "series.parquet": Role(_PARQUET, "loss, throughput and delay over time"),
    "features.parquet": Role(_PARQUET, "features of the flows' sockets"),
    "report.html": Role(_HTML, "the result as a page"),
    "logs/*.json": Role(_JSON, "output of a program of the run"),
    "logs/*": Role(_TEXT, "log of a program of the run"),
}
"""Patterns of paths in a run directory; the first that matches counts."""
OF_CAMPAIGNS: dict[str, Role] = {
    "campaign.yaml": Role(_YAML, "the campaign, as it was given to weir"),
    "index.html": Role(_HTML, "the campaign's runs on one page"),
    "summary.json": Role(_JSON, "the page's figures for programs"),
    "data/*": Role("text/csv", "the numbers of a figure of the page"),
    "figures/*": Role("image/svg+xml", "a figure of the page"),
}
OTHER = Role("application/octet-stream", "a file of the run that weir does not know")


def role_of(within: str, *, of_run: bool) -> Role:
    """The role of a file by its path in the folder of its run or campaign."""
    patterns = OF_RUNS if of_run else OF_CAMPAIGNS
    pattern = _pattern_of(within, patterns)
    return OTHER if pattern is None else patterns[pattern]


def roles_of(files: Iterable[str], patterns: Mapping[str, Role]) -> dict[str, Role]:
    """The `patterns` that some of the files have, by their paths in the folders of runs or campaigns."""
    found = {_pattern_of(within, patterns) for within in files}
    return {pattern: role for pattern, role in patterns.items() if pattern in found}


def _pattern_of(within: str, patterns: Mapping[str, Role]) -> str | None:
    return next((pattern for pattern in patterns if fnmatchcase(within, pattern)), None)
