# SPDX-License-Identifier: Apache-2.0
"""Checks each policer of a run: do all counts of its packets agree, did it conform to its configuration?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from weir.analysis.clocks import AlignedClock
from weir.analysis.conformance import LONG_RUN_BYTES, LONG_RUN_NS, Conformance, conformance
from weir.analysis.conservation import Account, PolicerCheck
from weir.analysis.models import ConformanceResult, PolicerResult
from weir.analysis.run_data import Directed
from weir.analysis.tables import Bools, Ints, Packets
from weir.rundir.manifest import Phase, Policer
from weir.rundir.plural import plural

AGREEMENT_PERCENT = 0.5
"""Largest difference of the long-run throughput from the configured rate that counts as agreement."""

NOT_PLAIN = "its verdicts, colours or changes are not those of one plain token bucket"
REMATCHED = "flows came to it or left it during the phase, so the captures do not show which packets met it"

COLOURS = ("green", "yellow", "red")


def members(flows: Sequence[Directed], phase: Phase, policer: Policer) -> list[Directed]:
    """The flows that this policer meters."""
    return [f for f in flows if f.phase is phase and f.policer is policer]


def dropped_here(packets: Packets, policer: Policer) -> Bools:
    """Mark the packets that this policer dropped; a later queue drops packets of colours that pass."""
    cells = range(policer.index, policer.index + policer.cells)
    dropped = packets.dropped & (packets.policer >= cells.start) & (packets.policer < cells.stop)
    if policer.dropped_colours is None:
        return np.asarray(dropped, dtype=bool)
    drops = np.array([colour in policer.dropped_colours for colour in COLOURS])
    return np.asarray(dropped & drops[packets.colour], dtype=bool)


def at_policer(flow: Directed, fit: AlignedClock) -> Ints:
    """Each packet's time at the policer, on the switch's clock: as reported, else converted from sending."""
    packets = flow.packets
    passed = np.where(packets.passed_ns > 0, packets.passed_ns, fit.to_target(packets.sent_ns))
    return np.where(packets.dropped, packets.ingress_ns, passed)


def rematched(phase: Phase) -> bool:
    """Whether a change replaced a policer's matches: then flows of all policers may have moved."""
    return any(change.match for change in phase.changes)


def _check_conformance(
    flows: Sequence[Directed], phase: Phase, policer: Policer, fits: Mapping[str, AlignedClock]
) -> tuple[Conformance | None, str | None]:
    if rematched(phase):
        return None, REMATCHED
    if not flows:
        return None, "no packet met it"
    if not policer.plain:
        return None, NOT_PLAIN
    unaligned = sorted({f.src_host or f.row.src for f in flows} - set(fits))
    if unaligned:
        return None, f"the clock of {', '.join(unaligned)} could not be pinned to the switch's"
    if policer.cells > 1:
        return _hashed(flows, policer, fits)
    return _bucket(flows, policer, fits), None


def _bucket(flows: Sequence[Directed], policer: Policer, fits: Mapping[str, AlignedClock]) -> Conformance:
    times: list[Ints] = []
    sizes: list[Ints] = []
    passed: list[Bools] = []
    for flow in flows:
        times.append(at_policer(flow, fits[flow.src_host or flow.row.src]))
        sizes.append(flow.packets.wire_length)
        passed.append(~dropped_here(flow.packets, policer))
    return conformance(
        np.concatenate(times),
        np.concatenate(sizes),
        np.concatenate(passed),
        policer.applied_rate_bps,
        policer.applied_burst_bytes,
    )


def _hashed(
    flows: Sequence[Directed], policer: Policer, fits: Mapping[str, AlignedClock]
) -> tuple[Conformance | None, str | None]:
    """Check each cell as a separate bucket; a flow's cell is known from its drop reports."""
    cells: dict[int, list[Directed]] = {}
    unknown = 0
    for flow in flows:
        dropped = flow.packets.policer[flow.packets.dropped]
        if len(dropped):
            cells.setdefault(int(dropped[0]), []).append(flow)
        else:
            unknown += 1
    note = (
        f"worst of {plural(len(cells), 'bucket')}; "
        f"{plural(unknown, 'flow without a drop belongs', 'flows without a drop belong')} to buckets unknown"
    )
    found = [_bucket(group, policer, fits) for group in cells.values()]
    figures = [c for c in found if c.deviation_percent is not None]
    worst = max(figures, key=lambda c: c.deviation_percent or 0.0, default=found[0] if found else None)
    return worst, note


def policer_result(
    flows: Sequence[Directed],
    phase: Phase,
    policer: Policer,
    accounts: Mapping[str, Account],
    fits: Mapping[str, AlignedClock],
) -> PolicerResult:
    """Compare one policer's counters with its packets in the captures and with its configuration."""
    moved = rematched(phase)
    its_flows = members(flows, phase, policer)
    droppable = [f for f in flows if f.phase is phase] if moved else its_flows
    counters = policer.counters
    here = {f.label: dropped_here(f.packets, policer) for f in droppable}
    sent = passed_bytes = None
    if not moved:
        sent = sum(len(f.packets) for f in its_flows)
        passed_bytes = sum(int(f.packets.wire_length[~here[f.label]].sum()) for f in its_flows)
    dropped = passed = None
    if counters is not None and policer.dropped_colours is not None:
        dropped = counters.of(policer.dropped_colours)
        passed = counters.of(set(COLOURS) - set(policer.dropped_colours))
    reports_lost = sum(accounts[f.label].reports_lost for f in droppable)
    check = PolicerCheck(
        counted_by_colour=None if counters is None else counters.packets,
        packets_met=policer.packets_met,
        sent_in_captures=sent,
        red=None if dropped is None else dropped.packets,
        reported_drops=sum(int(here[f.label].sum()) for f in droppable),
        reports_lost=reports_lost,
        # A dropped packet whose report was lost seems to have passed, so bytes cannot be compared then.
        passed_bytes_counted=None if passed is None or reports_lost or moved else passed.bytes,
        passed_bytes_in_captures=passed_bytes,
    )
    figure, note = _check_conformance(its_flows, phase, policer, fits)
    agrees, agreement = agreement_of(
        check.disagreements, reports_lost, figure, note, policer.applied_rate_bps
    )
    return PolicerResult(
        name=policer.name,
        phase=phase.name,
        rate_bps=policer.rate_bps,
        burst_bytes=policer.burst_bytes,
        effective_rate_bps=policer.applied_rate_bps,
        effective_burst_bytes=policer.applied_burst_bytes,
        green=None if counters is None else counters.green.packets,
        yellow=None if counters is None else counters.yellow.packets,
        red=None if counters is None else counters.red.packets,
        packets_met=policer.packets_met,
        passed_bytes=None if passed is None else passed.bytes,
        sent_in_captures=check.sent_in_captures,
        passed_bytes_in_captures=passed_bytes,
        reported_drops=check.reported_drops,
        reports_lost=check.reports_lost,
        disagreements=tuple(check.disagreements),
        conformance=None if figure is None else ConformanceResult.model_validate(asdict(figure)),
        conformance_note=note,
        agrees=agrees,
        agreement=agreement,
    )


def _why_no_long_run(figure: Conformance, rate_bps: float) -> str:
    if figure.saturated_windows:
        return f"it was not full for {figure.window_s:g} s and more, but less than that passed"
    if figure.offered_bps is not None and figure.offered_bps > rate_bps:
        return "more was offered than its rate, but with gaps in which the bucket filled up"
    return "less was offered than its rate"


def agreement_of(
    disagreements: Sequence[str],
    reports_lost: int,
    figure: Conformance | None,
    note: str | None,
    rate_bps: float,
) -> tuple[bool | None, str]:
    """Whether long-run throughput, counters and configured rate agree, with details or the reason.

    Counters and captures must be equal to the byte, the throughput within AGREEMENT_PERCENT of the rate. None
    where this is unknown.
    """
    if disagreements:
        return False, "; ".join(disagreements)
    if reports_lost:
        return (
            None,
            f"{plural(reports_lost, 'drop report is', 'drop reports are')} lost, "
            "so what passed is not known to the byte",
        )
    if figure is None:
        return None, note or "no packet met it"
    if figure.windows == 0:
        return None, f"its packets span less than {figure.window_s:g} s"
    if figure.long_run is None:
        return None, (
            f"its bucket was never without being full for {LONG_RUN_NS / 1e9:g} s and "
            f"{LONG_RUN_BYTES / 1e6:g} MB on end: {_why_no_long_run(figure, rate_bps)}"
        )
    found = figure.long_run
    said = (
        f"throughput over {found.span_s:.1f} s under load {found.error_percent:+.3f} % from the rate, "
        "counters equal to captures"
    )
    return abs(found.error_percent) <= AGREEMENT_PERCENT, said
