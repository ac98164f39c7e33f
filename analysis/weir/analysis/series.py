# SPDX-License-Identifier: Apache-2.0
"""The time series of a run as one table, `series.parquet`, for the report's figures.

Columns: phase, subject (flow id or policer name), kind, time_s (since the phase's start), value.
Kinds of a flow: switch_loss_ratio, inferred_loss_ratio, sent_bps, received_bps, rtt_s; of a measured one also
received_per_rtt_bps, over intervals of its shortest RTT.
Kinds of a policer: passed_bytes (cumulative), allowed_bytes (burst + rate × time since its first packet).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.analysis.clocks import AlignedClock
from weir.analysis.policers import at_policer, dropped_here, members, rematched
from weir.analysis.run_data import Directed
from weir.analysis.tables import Floats
from weir.analysis.timeseries import flow_series
from weir.rundir.manifest import Phase, Policer

FLOW_KINDS = ("switch_loss_ratio", "inferred_loss_ratio", "sent_bps", "received_bps", "rtt_s")
PER_RTT = "received_per_rtt_bps"
POLICER_KINDS = ("passed_bytes", "allowed_bytes")
_MAX_POINTS = 300
_SHORTEST_NS = 100_000_000
_MAX_RTTS = 5_000
"""Intervals of one RTT from a flow's start; 100 s where the RTT is 20 ms."""

SCHEMA = pa.schema(
    [
        ("phase", pa.string()),
        ("subject", pa.string()),
        ("kind", pa.string()),
        ("time_s", pa.float64()),
        ("value", pa.float64()),
    ]
)


def interval_ns(duration_ns: int) -> int:
    """The interval of the series: whole tenths of a second, at most _MAX_POINTS intervals."""
    return max(1, -(-duration_ns // (_MAX_POINTS * _SHORTEST_NS))) * _SHORTEST_NS


def series_table(
    phases: Sequence[tuple[Phase, int, int]], flows: Sequence[Directed], fits: Mapping[str, AlignedClock]
) -> Any:
    """The table for all phases, given as (phase, start_ns, end_ns)."""
    blocks: list[Any] = []
    for phase, start_ns, end_ns in phases:
        for subject, kind, time_s, value in _phase_series(phase, start_ns, end_ns, flows, fits):
            n = len(time_s)
            blocks.append(
                pa.table([[phase.name] * n, [subject] * n, [kind] * n, time_s, value], schema=SCHEMA)
            )
    return pa.concat_tables(blocks) if blocks else SCHEMA.empty_table()


def _phase_series(
    phase: Phase, start_ns: int, end_ns: int, flows: Sequence[Directed], fits: Mapping[str, AlignedClock]
) -> Iterator[tuple[str, str, Floats, Floats]]:
    step_ns = interval_ns(end_ns - start_ns)
    for flow in flows:
        if flow.kind == "data" and flow.phase is phase:
            found = flow_series(flow.packets, flow.rtts, start_ns, end_ns, step_ns)
            for kind in FLOW_KINDS:
                yield flow.label, kind, found.time_s, getattr(found, kind)
            if flow.configured is not None and flow.configured.measured and len(flow.rtts.rtt_ns):
                rtt_ns = max(1, int(flow.rtts.rtt_ns.min()))
                end = min(end_ns, start_ns + _MAX_RTTS * rtt_ns)
                found = flow_series(flow.packets, None, start_ns, end, rtt_ns)
                yield flow.label, PER_RTT, found.time_s, found.received_bps
    for policer in phase.policers:
        if policer.cells == 1 and not rematched(phase):
            yield from _policer_series(policer, members(flows, phase, policer), fits, start_ns, step_ns)


def _policer_series(
    policer: Policer,
    flows: Sequence[Directed],
    fits: Mapping[str, AlignedClock],
    start_ns: int,
    step_ns: int,
) -> Iterator[tuple[str, str, Floats, Floats]]:
    hosts = {f.src_host or "" for f in flows}
    if not flows or not hosts <= set(fits):
        return
    passes = [~dropped_here(f.packets, policer) for f in flows]
    met = [at_policer(f, fits[f.src_host or ""]) for f in flows]
    times = np.concatenate([at[kept] for at, kept in zip(met, passes, strict=True)])
    sizes = np.concatenate([f.packets.wire_length[kept] for f, kept in zip(flows, passes, strict=True)])
    if not len(times):
        return
    order = np.argsort(times, kind="stable")
    times, passed = times[order], np.cumsum(sizes[order])
    # The phase's start is on the hosts' clock; any of the fits converts it to the switch's.
    zero = int(fits[next(iter(sorted(hosts)))].to_target(np.array([start_ns]))[0])
    grid = np.arange(times[0], times[-1] + 1, step_ns)
    at = np.searchsorted(times, grid, side="right")
    time_s = (grid - zero) / 1e9
    cumulative = np.where(at > 0, passed[np.maximum(at - 1, 0)], 0).astype(np.float64)
    yield policer.name, "passed_bytes", time_s, cumulative
    allowed = policer.applied_burst_bytes + policer.applied_rate_bps / 8e9 * (grid - times[0])
    yield policer.name, "allowed_bytes", time_s, allowed
