# SPDX-License-Identifier: Apache-2.0
"""Checks whether a run's measurement is sound, and sums up the run in a headline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weir.analysis.clocks import AlignedClock, ClockFit
from weir.analysis.conservation import Account
from weir.analysis.models import PolicerResult
from weir.analysis.run_data import RunData
from weir.analysis.timing.moved import Step
from weir.analysis.timing.run import NO_CLOCKS, RunClocks
from weir.rundir.plural import plural

MAX_RESIDUAL_NS = 1_000_000
"""Largest error of a clock in a valid run: a larger one moves packets to other intervals of loss series."""

NOTED_NS, NOTED_PPM = 100_000, 1.0
"""Clocks that differ by less are not worth a note."""

SAME_CLOCK_NS = 1_000_000
"""Clocks whose offsets differ by less are one clock: that of one machine."""


def clock_error_ns(host: str, fits: Mapping[str, ClockFit], clocks: RunClocks) -> int:
    """How exactly the clock of a host is pinned to the switch's, by its own reports or over another host's.

    The residual is large where the delay to the switch varies, however well the line is known. So what counts
    is the least of the residual, the line's own error, and another host's with the error between the two.
    """

    def own(fit: ClockFit) -> int:
        return fit.residual_ns if fit.error_ns is None else min(fit.residual_ns, fit.error_ns)

    found = [own(fits[host])]
    for other, fit in fits.items():
        between_ns = clocks.error_between_ns(host, other)
        if other != host and between_ns is not None:
            found.append(own(fit) + between_ns)
    return min(found)


def invalid_reasons(data: RunData, fits: Mapping[str, ClockFit]) -> list[str]:
    """The reasons why the measurement is not valid; empty when it is."""
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
            add(f"the capture of {host.name} lost {plural(host.capture_drops, 'packet')}")
        elif host.capture_drops is None:
            add(f"nobody counted what the capture of {host.name} lost")
    # Where a disk was full for a while, tcpdump writes no more, counts on, and ends as if all were well.
    for host, records in zip(manifest.hosts, data.records, strict=True):
        if host.capture_received is not None and host.capture_received != records:
            add(
                f"the file of {host.name}'s capture has {plural(records, 'packet')}, but "
                f"{plural(host.capture_received, 'was', 'were')} captured: was the disk full?"
            )
    for port in manifest.switch.stats.ports if manifest.switch.stats else ():
        if port.rx_overruns:
            add(
                f"switch port {port.port}: {plural(port.rx_overruns, 'frame')} lost before "
                "the switch read them"
            )
        if port.tx_errors:
            add(f"switch port {port.port}: {plural(port.tx_errors, 'frame')} that the switch could not send")
    seen = {flow.label for flow in data.flows}
    for phase in manifest.phases:
        for missing in (flow.id for flow in phase.flows if flow.id not in seen):
            add(f"flow {missing} is in no capture")
    if not collector.complete:
        add("the collector did not finish")
    if collector.kernel_drops:
        add(f"the collector's socket dropped {plural(collector.kernel_drops, 'report')}")
    for host_name in sorted(fits):
        error_ns = clock_error_ns(host_name, fits, data.clocks)
        if error_ns > MAX_RESIDUAL_NS:
            add(
                f"the clock of {host_name} is pinned to the switch's only to {error_ns / 1e6:.1f} ms "
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
    """The run's notes, and a note for each kind of packets that the switch dropped without policing them."""
    found = [*data.notes, *_notes_on_clocks(data)]
    counted = data.manifest.switch.stats.dataplane if data.manifest.switch.stats else {}
    for name, meaning in UNEXPECTED_DROPS.items():
        if counted.get(name):
            found.append(
                f"the switch dropped {plural(counted[name], 'packet that was', 'packets that were')} "
                f"{meaning}"
            )
    return found


def _notes_on_clocks(data: RunData) -> list[str]:
    """When clocks were set, and how far they were apart."""
    clocks = data.clocks
    starts = [phase.start_ns for phase in data.manifest.phases if phase.start_ns is not None]

    def set_at(steps: Sequence[Step]) -> str:
        zero_ns = min(starts, default=0)
        return " and ".join(
            f"by {step.size_ns / 1e6:+,.3f} ms {(step.at_ns - zero_ns) / 1e9:.1f} s after the start"
            for step in steps
        )

    found = [
        f"the clock of {host} was set {set_at(clock.steps)}; its times are corrected"
        for host, clock in sorted(clocks.hosts.items())
        if clock.steps and not clock.same
    ]
    if data.switch_steps:
        found.append(f"the switch's clock was set {set_at(data.switch_steps)}; its times are corrected")
    moved = [clock for clock in clocks.hosts.values() if not clock.same and clock.by != "itself"]
    apart_ns = max((abs(clock.offset_ns) for clock in moved), default=0)
    drift = max((abs(clock.drift_ppm) for clock in moved), default=0.0)
    if apart_ns >= NOTED_NS or drift >= NOTED_PPM:
        errors = [clock.error_ns for clock in moved]
        error = "unknown" if None in errors else f"{max(error or 0 for error in errors) / 1e6:.2f} ms"
        found.append(
            f"the hosts' clocks were up to {apart_ns / 1e6:,.1f} ms and {drift:.1f} ppm from that of "
            f"{clocks.reference}, to which their times are moved (largest error: {error})"
        )
    return found


def _best(own: Mapping[str, AlignedClock]) -> ClockFit:
    return min((clock.fit for clock in own.values()), key=lambda fit: (fit.residual_ns, -fit.points))


def one_clock(own: Mapping[str, AlignedClock]) -> bool:
    """Whether the hosts' clocks agree within `SAME_CLOCK_NS`, also as time passes; a single clock does."""
    if len(own) < 2:
        return True
    best = _best(own)
    at = np.array([best.origin_ns], dtype=np.int64)
    same_moment = [int(clock.fit.to_target(at)[0]) for clock in own.values()]
    if max(same_moment) - min(same_moment) > SAME_CLOCK_NS:
        return False
    pinned = next(clock for clock in own.values() if clock.fit is best)
    return not any(_drift_apart(clock, pinned) for clock in own.values())


def _drift_apart(one: AlignedClock, other: AlignedClock) -> bool:
    """Whether two clocks differ by more than their errors explain while packets pin both."""
    errors = (one.fit.error_ns, other.fit.error_ns)
    if None in errors or not len(one.anchor_ns) or not len(other.anchor_ns):
        return False
    ends = [(int(clock.anchor_ns[0]), int(clock.anchor_ns[-1])) for clock in (one, other)]
    both = np.array([max(start for start, _ in ends), min(end for _, end in ends)], dtype=np.int64)
    if both[1] < both[0]:
        return False
    apart_ns = int(np.abs(one.fit.to_target(both) - other.fit.to_target(both)).max())
    return apart_ns > SAME_CLOCK_NS + sum(error_ns or 0 for error_ns in errors)


def same_clock(
    own: Mapping[str, AlignedClock], hosts: set[str], clocks: RunClocks = NO_CLOCKS
) -> dict[str, AlignedClock]:
    """The clock of each host: its own, or the best fit of all hosts where these have one clock.

    Hosts of one machine share its clock and therefore have equal offsets. Where offsets differ, a host
    without dropped packets has no clock. Hosts whose times were moved to one clock have it with an error.
    """
    result = {host: clock for host, clock in own.items() if host in hosts}
    if own and one_clock(own):
        best = _best(own)
        pinned = next(host for host, clock in own.items() if clock.fit is best)
        nothing = np.empty(0, dtype=np.int64)
        for host in hosts - set(own):
            error_ns = 0 if clocks.one else clocks.error_between_ns(host, pinned)
            if error_ns is not None:
                # The delay of this host's path to the switch is unknown, so none is added.
                result[host] = AlignedClock(best, nothing, nothing.astype(np.float64), error_ns)
    return result


def headline(
    whole: Account,
    accounts: Mapping[str, Account],
    policers: Sequence[PolicerResult],
    data: RunData,
    invalid: bool,
) -> str:
    """The run's verdict in one sentence, or a few."""
    unexplained = sum(abs(a.unexplained) for a in accounts.values())
    lost = whole.missing - whole.in_flight
    parts = []
    if unexplained:
        parts.append(f"{unexplained:,} of {lost:,} lost packets are not explained.")
    elif lost == 0:
        parts.append("No packet was lost.")
    else:
        each = "The only lost packet" if lost == 1 else f"Every one of {lost:,} lost packets"
        parts.append(f"{each} is explained.")
    if whole.reports_lost:
        parts.append(f"{whole.reports_lost:,} of them by drop reports that are known to be lost.")
    if whole.emulated_losses:
        parts.append(f"{whole.emulated_losses:,} of them by losses of a link or its queue.")
    if whole.contradictions:
        parts.append(
            plural(
                whole.contradictions,
                "packet arrived although it was reported dropped.",
                "packets arrived although they were reported dropped.",
            )
        )
    disagreeing = [f"{p.phase}/{p.name}" for p in policers if p.disagreements]
    if disagreeing:
        parts.append(f"The counts of {', '.join(disagreeing)} do not agree.")
    if data.unmatched_reports:
        parts.append(
            f"{plural(data.unmatched_reports, 'drop report matches', 'drop reports match')} no packet of the "
            "captures."
        )
    if data.unmatched_received:
        parts.append(
            f"{plural(data.unmatched_received, 'packet was', 'packets were')} received that no capture shows "
            "being sent."
        )
    if invalid:
        parts.append("The measurement is not valid.")
    return " ".join(parts)
