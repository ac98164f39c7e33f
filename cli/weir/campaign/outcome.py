# SPDX-License-Identifier: Apache-2.0
"""What a whole run showed, as the campaign counts it, and whether it counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.campaign.config import LimitsConfig
from weir.campaign.load import Campaign, Cell
from weir.campaign.store import read_manifest
from weir.cli.errors import InputError

RESULT = "result.json"
WORTH_SAYING = 0.005
"""Of the processors' time: what a host gives to others before it is named as a cause."""


@dataclass(frozen=True)
class Outcome:
    """One whole run; `result` and `manifest` are its files."""

    key: str
    path: Path
    cell: Cell
    repeat: int
    manifest: Mapping[str, Any]
    result: Mapping[str, Any]
    invalid_reasons: tuple[str, ...]
    """Why its numbers do not count: its own reasons, and the campaign's limits."""

    @property
    def valid(self) -> bool:
        """Whether its numbers count."""
        return not self.invalid_reasons

    @property
    def unexplained(self) -> int:
        """Packets of all its flows that nobody can explain, by amount."""
        flows = sum(abs(flow["unexplained"]) for flow in self.result["flows"])
        others = sum(abs(other["law"]["unexplained"]) for other in self.result["other_flows"])
        return int(flows + others)

    @property
    def measured(self) -> Sequence[Mapping[str, Any]]:
        """The results of its measured flows."""
        return [flow for flow in self.result["flows"] if flow["measured"]]

    @property
    def wall_s(self) -> float | None:
        """How long it took, from its first process to its report."""
        seconds = self.manifest.get("campaign", {}).get("wall_s")
        return float(seconds) if seconds is not None else None


def read_outcome(path: Path, limits: LimitsConfig) -> Outcome:
    """The outcome of a whole run; raises InputError where its files cannot be read."""
    manifest = read_manifest(path)
    try:
        result = json.loads((path / RESULT).read_text())
        campaign = manifest["campaign"]
        reasons = (*result["invalid_reasons"], *over_limits(manifest, result, limits))
        return Outcome(
            key=campaign["run"],
            path=path,
            cell=campaign["cell"],
            repeat=campaign["repeat"],
            manifest=manifest,
            result=result,
            invalid_reasons=reasons if result["complete"] else (*reasons, "the run is not complete"),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path / RESULT}: {error!r}; valid: the result of a whole run") from error


def over_limits(manifest: Mapping[str, Any], result: Mapping[str, Any], limits: LimitsConfig) -> list[str]:
    """Why the machine was too busy, or nobody measured whether it was; empty where it was not."""
    measured = (
        ("scheduling delay", manifest.get("scheduling"), limits.scheduling_p99),
        ("lateness of the switch", result.get("switch_lateness"), limits.switch_p99),
    )
    reasons = []
    for what, figures, limit_ns in measured:
        if not figures:
            reasons.append(f"nobody measured the {what}")
        elif figures["p99_s"] * 1e9 > limit_ns:
            reasons.append(
                f"the {what} was {figures['p99_s'] * 1e3:.2f} ms at the 99th percentile "
                f"(limit {limit_ns / 1e6:g} ms)"
            )
    stolen = (manifest.get("scheduling") or {}).get("stolen_share", 0.0)
    if reasons and stolen >= WORTH_SAYING:
        reasons[-1] += f"; the host of this virtual machine kept {stolen:.1%} of the processors' time"
    return reasons


def outcomes(campaign: Campaign, done: Mapping[str, Path]) -> list[Outcome]:
    """The outcomes of whole runs in the order of the campaign."""
    return [read_outcome(done[run.key], campaign.limits) for run in campaign.runs if run.key in done]


def in_one_line(outcome: Outcome) -> str:
    """Losses, throughput and verdicts of the measured flows, for a line on the terminal."""
    parts = []
    if outcome.measured:
        losses = ", ".join(_percent(flow["loss_ratio"]) for flow in outcome.measured)
        rates = ", ".join(_megabits(flow["throughput_bps"]) for flow in outcome.measured)
        sent, on_links = (sum(flow[key] for flow in outcome.measured) for key in ("sent", "emulated_losses"))
        links = f" and {_percent(on_links / sent)} on links" if on_links else ""
        parts.append(f"loss {losses}{links}; {rates} Mbit/s")
    for truth in dict.fromkeys(pair["truth"] for pair in outcome.result["pairs"]):
        its = [pair for pair in outcome.result["pairs"] if pair["truth"] == truth]
        right = sum(pair["verdict"] == truth for pair in its)
        parts.append(f"{truth}: {right} of {len(its)} verdicts right")
    parts.append(f"{outcome.unexplained} unexplained")
    if not outcome.valid:
        parts.append("INVALID: " + "; ".join(outcome.invalid_reasons))
    return "; ".join(parts)


def _percent(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * ratio:.1f} %"


def _megabits(rate_bps: float | None) -> str:
    return "–" if rate_bps is None else f"{rate_bps / 1e6:.1f}"
