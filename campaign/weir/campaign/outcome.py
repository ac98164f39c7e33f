# SPDX-License-Identifier: Apache-2.0
"""Reads a complete run of a campaign and decides whether it is valid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.campaign.config import LimitsConfig
from weir.campaign.errors import CampaignError
from weir.campaign.load import Campaign, Cell
from weir.campaign.store import read_manifest
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import Manifest, Scheduling
from weir.rundir.plural import plural
from weir.runner import machine


@dataclass(frozen=True)
class Outcome:
    """One complete run; `result` and `manifest` are the contents of its files."""

    key: str
    path: Path
    cell: Cell
    repeat: int
    manifest: Manifest
    result: Mapping[str, Any]
    invalid_reasons: tuple[str, ...]
    """Reasons from its result, and from the campaign's limits; empty if the run is valid."""

    @property
    def valid(self) -> bool:
        """Whether its measurements may be used."""
        return not self.invalid_reasons

    @property
    def unexplained(self) -> int:
        """Unexplained packets of all flows: the sum of absolute values."""
        flows = sum(abs(flow["unexplained"]) for flow in self.result["flows"])
        others = sum(abs(other["law"]["unexplained"]) for other in self.result["other_flows"])
        return int(flows + others)

    @property
    def measured(self) -> Sequence[Mapping[str, Any]]:
        """The results of its measured flows."""
        return [flow for flow in self.result["flows"] if flow["measured"]]

    @property
    def wall_s(self) -> float | None:
        """Seconds from its first process to its report; None if not recorded."""
        return None if self.manifest.campaign is None else self.manifest.campaign.wall_s


def read_outcome(path: Path, limits: LimitsConfig) -> Outcome:
    """Read a complete run; raises CampaignError if its files cannot be read."""
    manifest = read_manifest(path)
    result_file = RunDirectory(path).result
    try:
        result = json.loads(result_file.read_text())
        campaign = manifest.campaign
        if campaign is None:
            raise ValueError("not a run of a campaign")
        reasons = (*result["invalid_reasons"], *over_limits(manifest, result, limits))
        return Outcome(
            key=campaign.run,
            path=path,
            cell=campaign.cell,
            repeat=campaign.repeat,
            manifest=manifest,
            result=result,
            invalid_reasons=reasons if result["complete"] else (*reasons, "the run is not complete"),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CampaignError(
            f"{result_file}: {_said(error)}; valid: a complete run (`weir report {path}` makes the result "
            f"anew from captures), or no {path.name} at all, and `weir campaign` makes the run again"
        ) from error


def _said(error: Exception) -> str:
    """The error of a result that cannot be read, in words."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"no {error}" if isinstance(error, KeyError) else str(error)


def over_limits(manifest: Manifest, result: Mapping[str, Any], limits: LimitsConfig) -> list[str]:
    """Reasons why a run is invalid by the campaign's limits on scheduling and switch lateness.

    Virtual time waits for the machine, so a run in it has no such limits. Nothing of a run on a testbed waits
    for the machine that is measured, and its switch need not say how late it was.
    """
    lateness = result.get("switch_lateness")
    if manifest.virtual_time is not None or (manifest.testbed is not None and not lateness):
        return []
    return machine.over_limits(
        manifest.scheduling if manifest.testbed is None else Scheduling(p99_s=0.0),
        lateness["p99_s"] if lateness else None,
        scheduling_limit_ns=limits.scheduling_p99,
        switch_limit_ns=limits.switch_p99,
    )


def outcomes(campaign: Campaign, done: Mapping[str, Path]) -> list[Outcome]:
    """The outcomes of complete runs, in the order of the campaign."""
    return [read_outcome(done[run.key], campaign.limits) for run in campaign.runs if run.key in done]


def summary_line(outcome: Outcome) -> str:
    """Losses, throughput and verdicts of the measured flows, for a line on the terminal."""
    parts = []
    if outcome.measured:
        losses = ", ".join(_percent(flow["loss_ratio"]) for flow in outcome.measured)
        rates = ", ".join(_megabits(flow["throughput_bps"]) for flow in outcome.measured)
        sent, on_links = (sum(flow[key] for flow in outcome.measured) for key in ("sent", "emulated_losses"))
        links = f" and {_percent(on_links / sent)} on links" if on_links else ""
        parts.append(f"loss {losses}{links}; {rates} Mbit/s")
    for truth in dict.fromkeys(pair["truth"] for pair in outcome.result["pairs"]):
        pairs = [pair for pair in outcome.result["pairs"] if pair["truth"] == truth]
        right = sum(pair["verdict"] == truth for pair in pairs)
        parts.append(f"{truth}: {right} of {plural(len(pairs), 'verdict')} right")
    parts.append(f"{outcome.unexplained} unexplained")
    if not outcome.valid:
        parts.append("INVALID: " + "; ".join(outcome.invalid_reasons))
    return "; ".join(parts)


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * ratio:.1f} %"


def _megabits(rate_bps: float | None) -> str:
    return "–" if rate_bps is None else f"{rate_bps / 1e6:.1f}"
