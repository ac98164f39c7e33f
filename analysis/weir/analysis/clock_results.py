# SPDX-License-Identifier: Apache-2.0
"""The sections of the result about clocks: each sender's beside the switch's, and all beside the run's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.analysis.clocks import ClockFit
from weir.analysis.models import ClockResult, ClockStepResult, HostClockResult
from weir.analysis.run_data import RunData
from weir.analysis.timing.moved import Step
from weir.analysis.timing.run import RunClocks


def clock_result(host: str, fit: ClockFit, clocks: RunClocks) -> ClockResult:
    """A sender's own clock beside the switch's, before either was set; the fit is on the run's clock."""
    offset_ns, drift = fit.offset_ns, fit.drift_ppm * 1e-6
    clock = clocks.hosts.get(host)
    if clock is not None and not clock.same:
        first = clock.pieces[0]
        shown = first.source_at(fit.origin_ns)
        offset_ns += fit.origin_ns - shown
        drift = (1 + drift) / (1 + clock.drift_ppm * 1e-6) - 1
    return ClockResult(
        host=host,
        points=fit.points,
        outliers=fit.outliers,
        offset_ns=offset_ns,
        drift_ppm=drift * 1e6,
        residual_ns=fit.residual_ns,
        spread_ns=fit.spread_ns,
        error_ns=fit.error_ns,
    )


def host_clocks(data: RunData, fits: Mapping[str, ClockFit]) -> tuple[HostClockResult, ...]:
    """The clock of each host that exchanged packets with another one, and last that of the switch."""
    clocks = data.clocks
    if clocks.reference is None:
        return ()
    found = [
        HostClockResult(
            host=host,
            reference=clocks.reference,
            same=clock.same,
            by=clock.by,
            packets=clock.packets,
            offset_ns=clock.offset_ns,
            drift_ppm=clock.drift_ppm,
            steps=() if clock.same else _steps(clock.steps),
            residual_ns=clock.residual_ns,
            error_ns=None if clock.error_ns is None else clock.error_ns + clocks.reference_error_ns,
        )
        for host, clock in sorted(clocks.hosts.items())
    ]
    if fits:
        best = min(fits.values(), key=lambda fit: (fit.residual_ns, -fit.points))
        switch = HostClockResult(
            host="switch",
            reference=clocks.reference,
            same=False,
            by="reports",
            packets=sum(fit.points for fit in fits.values()),
            offset_ns=best.offset_ns,
            drift_ppm=best.drift_ppm,
            steps=_steps(data.switch_steps),
            residual_ns=best.residual_ns,
            # One direction only: the offset includes the delay to the switch.
            error_ns=None,
        )
        found.append(switch)
    return tuple(found)


def _steps(steps: Sequence[Step]) -> tuple[ClockStepResult, ...]:
    return tuple(ClockStepResult(at_ns=step.at_ns, size_ns=step.size_ns) for step in steps)
