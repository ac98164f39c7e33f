# SPDX-License-Identifier: Apache-2.0
"""Is the measurement itself sound, and what is to be said of the run in one sentence?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weir.analysis.clocks import ClockFit, Pinned
from weir.analysis.conservation import Account
from weir.analysis.models import PolicerResult
from weir.analysis.run_data import RunData

MAX_RESIDUAL_NS = 1_000_000
"""A clock pinned worse than this moves packets between intervals of loss; the run is then not valid."""

SAME_CLOCK_NS = 1_000_000
"""Offsets closer than this are of one clock: hosts of one machine."""


def invalid_reasons(data: RunData, fits: Mapping[str, ClockFit]) -> list[str]:
    """Why the measurement cannot be trusted; empty when it can. These are never explained away."""
    manifest, collector = data.manifest, data.collector
    reasons = list(manifest.invalid_reasons)

    def add(reason: str) -> None:
        if reason not in reasons:
            reasons.append(reason)

    if not manifest.complete:
        error = f": {manifest.error}" if manifest.error else ""
        add(f"the run did not finish ({manifest.state or 'no state'}{error})")
    for host in manifest.hosts:
        if host.capture_drops:
            add(f"the capture of {host.name} lost {host.capture_drops:,} packets")
        elif host.capture_drops is None:
            add(f"nobody counted what the capture of {host.name} lost")
    for port in manifest.switch.stats.ports if manifest.switch.stats else ():
        if port.rx_overruns:
            add(f"switch port {port.port}: {port.rx_overruns:,} frames lost before the switch read them")
        if port.tx_errors:
            add(f"switch port {port.port}: {port.tx_errors:,} frames that the switch could not send")
    seen = {flow.label for flow in data.flows}
    for phase in manifest.phases:
        for missing in (flow.id for flow in phase.flows if flow.id not in seen):
            add(f"flow {missing} is in no capture")
    if not collector.complete:
        add("the collector did not finish")
    if collector.kernel_drops:
        add(f"the collector's socket dropped {collector.kernel_drops:,} reports")
    for host_name, fit in sorted(fits.items()):
        if fit.residual_ns > MAX_RESIDUAL_NS:
            add(
                f"the clock of {host_name} is pinned to the switch's only to {fit.residual_ns / 1e6:.1f} ms "
                f"(at most {MAX_RESIDUAL_NS / 1e6:.0f} ms is sound)"
            )
    return reasons


UNEXPECTED_DROPS = {
    "oversize": "longer than the switch takes",
    "dropped_no_port": "sent to a port that does not exist",
    "dropped_no_replica": "sent to a multicast group without a port",
    "dropped_reconfigured": "under way while the pipeline was replaced",
    "dropped_loop": "recirculated too often",
}


def notes(data: RunData) -> list[str]:
    """What the reader should know: the run's own notes, and packets the switch lost without policing them."""
    found = list(data.notes)
    counted = data.manifest.switch.stats.dataplane if data.manifest.switch.stats else {}
    for name, meaning in UNEXPECTED_DROPS.items():
        if counted.get(name):
            found.append(f"the switch dropped {counted[name]:,} packets that were {meaning}")
    return found


def _best(own: Mapping[str, Pinned]) -> ClockFit:
    return min((clock.fit for clock in own.values()), key=lambda fit: (fit.residual_ns, -fit.points))


def one_clock(own: Mapping[str, Pinned]) -> bool:
    """Whether the hosts' clocks show one moment within `SAME_CLOCK_NS`; a single one does."""
    if len(own) < 2:
        return True
    at = np.array([_best(own).origin_ns], dtype=np.int64)
    same_moment = [int(clock.fit.to_target(at)[0]) for clock in own.values()]
    return max(same_moment) - min(same_moment) <= SAME_CLOCK_NS


def same_clock(own: Mapping[str, Pinned], hosts: set[str]) -> dict[str, Pinned]:
    """A clock for every host: its own, or the best fit of all where they show one clock.

    Hosts of one machine share its clock, which shows in equal offsets. Where the offsets differ, a host that
    lost nothing stays without one.
    """
    result = {host: clock for host, clock in own.items() if host in hosts}
    if own and one_clock(own):
        best = _best(own)
        nothing = np.empty(0, dtype=np.int64)
        for host in hosts - set(own):
            # Its own way to the switch is not known, so no delay is added.
            result[host] = Pinned(best, nothing, nothing.astype(np.float64))
    return result


def headline(
    whole: Account,
    accounts: Mapping[str, Account],
    policers: Sequence[PolicerResult],
    data: RunData,
    invalid: bool,
) -> str:
    """The run's verdict in plain words."""
    unexplained = sum(abs(a.unexplained) for a in accounts.values())
    lost = whole.missing - whole.in_flight
    parts = []
    if unexplained:
        parts.append(f"{unexplained:,} of {lost:,} lost packets are not explained.")
    elif lost == 0:
        parts.append("No packet was lost.")
    else:
        parts.append(f"Every one of {lost:,} lost packets is explained.")
    if whole.reports_lost:
        parts.append(f"{whole.reports_lost:,} of them by drop reports that are known to be lost.")
    if whole.emulated_losses:
        parts.append(f"{whole.emulated_losses:,} of them by losses of a link or its queue.")
    if whole.contradictions:
        parts.append(f"{whole.contradictions:,} packets arrived although they were reported dropped.")
    disagreeing = [f"{p.phase}/{p.name}" for p in policers if p.disagreements]
    if disagreeing:
        parts.append(f"The counts of {', '.join(disagreeing)} do not agree.")
    if data.unmatched_reports:
        parts.append(f"{data.unmatched_reports:,} drop reports match no packet of the captures.")
    if data.unmatched_received:
        parts.append(f"{data.unmatched_received:,} packets were received that no capture shows being sent.")
    if invalid:
        parts.append("The measurement is not valid.")
    return " ".join(parts)
