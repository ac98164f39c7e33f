# SPDX-License-Identifier: Apache-2.0
"""Makes the charts of the report from the series of a run. A chart is plain data; `page.js` draws it.

A flow has the same colour, by its name, in every chart of the page; the switch's view is always grey.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weir.analysis.models import FlowResult, PolicerResult, Result
from weir.analysis.report import text
from weir.analysis.tables import TCP, Floats
from weir.rundir.plural import plural

COLOURS = 8
"""Size of the palette in `page.css`; flows beyond it share one grey."""

Series = Mapping[tuple[str, str, str], tuple[Floats, Floats]]
"""(phase, subject, kind) → times in s, values."""


def colours(result: Result) -> dict[str, int]:
    """A colour number for each flow name, measured flows first; -1 beyond the palette."""
    names = dict.fromkeys(
        [f.name for f in result.flows if f.measured] + [f.name for f in result.flows if not f.measured]
    )
    return {name: i if i < COLOURS else -1 for i, name in enumerate(names)}


def series_of(table: Any) -> dict[tuple[str, str, str], tuple[Floats, Floats]]:
    """The rows of `series.parquet`, grouped."""
    found: dict[tuple[str, str, str], tuple[list[float], list[float]]] = {}
    columns = [table[name].to_pylist() for name in ("phase", "subject", "kind", "time_s", "value")]
    for phase, subject, kind, at, value in zip(*columns, strict=True):
        times, values = found.setdefault((phase, subject, kind), ([], []))
        times.append(at)
        values.append(math.nan if value is None else value)
    return {key: (np.array(times), np.array(values)) for key, (times, values) in found.items()}


def charts(result: Result, series: Series) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """All charts by phase, then by group: `loss`, `throughput`, `rtt`, `policer`."""
    colour = colours(result)
    return {
        phase.name: {
            "loss": _loss(result, phase.name, series, colour),
            "throughput": _throughput(result, phase.name, series, colour),
            "rtt": _rtt(result, phase.name, series, colour),
            "policer": _policers(result, phase.name, series),
        }
        for phase in result.phases
    }


def tuning_charts(result: Result, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The settings of tuners over time, by rows of `tuning.parquet`; none where values are no numbers."""
    found = []
    for phase in result.phases:
        tuned = [row for row in rows if row["flow"].startswith(f"{phase.name}/")]
        for host in dict.fromkeys(row["host"] for row in tuned):
            its = [row for row in tuned if row["host"] == host]
            try:
                values = np.array([float(row["value"]) for row in its])
            except ValueError:
                continue
            at = np.array([(row["time_ns"] - phase.start_ns) / 1e9 for row in its])
            named = dict.fromkeys(row["predicted"] for row in its)
            found.append(
                {
                    "title": f"Phase {phase.name}: {its[0]['sysctl']} of {host}",
                    "subtitle": f"set by its tuner, which named {', '.join(named)}",
                    "y": "",
                    "format": "~f",
                    "hover": "~f",
                    "steps": "hv",
                    "zero": True,
                    "traces": [_trace(its[0]["flow"], at, values, 0)],
                }
            )
    return found


def pair_charts(result: Result) -> list[dict[str, Any]]:
    """The correlation at each interval size, one chart per pair with a detector of several sizes."""
    found = []
    for pair in result.pairs:
        sizes = [s for s in pair.detail.get("sizes", ()) if s.get("used") and s["rho"] is not None]
        if not sizes:
            continue
        traces = []
        for name, significant, colour in (("p < 0.05", True, 0), ("not significant", False, "truth")):
            those = [s for s in sizes if s["significant"] is significant]
            at = np.array([s["interval_s"] for s in those])
            rho = np.array([s["rho"] for s in those])
            if those:
                traces.append(_trace(name, at, rho, colour, "points"))
        found.append(
            {
                "title": f"Phase {pair.phase}: correlation by interval size",
                "subtitle": f"verdict {pair.verdict.replace('_', ' ')}, truth {pair.truth}",
                "legend": True,
                "y": "rank correlation",
                "x": "size of the intervals in seconds",
                "format": ".1f",
                "hover": ".3f",
                "traces": traces,
                "range": [-1.05, 1.05],
            }
        )
    return found


def _numbers(values: Floats, digits: int = 5) -> list[float | None]:
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in values.tolist()]


def _trace(name: str, x: Floats, y: Floats, colour: int | str, style: str = "line") -> dict[str, Any]:
    return {"name": name, "x": _numbers(x), "y": _numbers(y), "colour": colour, "style": style}


def _flows(result: Result, phase: str, measured_only: bool) -> list[FlowResult]:
    its = [flow for flow in result.flows if flow.phase == phase]
    measured = [flow for flow in its if flow.measured]
    return measured if measured_only and measured else its


def _loss(result: Result, phase: str, series: Series, colour: Mapping[str, int]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    highest = 0.0
    for flow in _flows(result, phase, measured_only=True):
        switch = series.get((phase, flow.id, "switch_loss_ratio"))
        inferred = series.get((phase, flow.id, "inferred_loss_ratio"))
        if switch is None or inferred is None:
            continue
        highest = max(highest, *np.nan_to_num(np.concatenate([switch[1], inferred[1]])).tolist())
        found.append(
            {
                "title": flow.name,
                "subtitle": f"{text.share(flow.loss_ratio)} of {plural(flow.sent, 'packet')} dropped",
                "y": "packets lost",
                "format": ".0%",
                "hover": ".1%",
                "traces": [
                    _trace("dropped by the switch", *switch, "truth", "area"),
                    *(
                        [_trace("inferred by the sender", *inferred, colour[flow.name])]
                        if flow.protocol == TCP
                        else []
                    ),
                ],
            }
        )
    for chart in found:
        # One scale for all flows of a phase, so that their heights are comparable.
        chart["steps"] = "hvh"
        chart["range"] = [0, max(highest * 1.05, 0.01)]
    return found


def _throughput(
    result: Result, phase: str, series: Series, colour: Mapping[str, int]
) -> list[dict[str, Any]]:
    traces, mean_s = [], 1.0
    for flow in _flows(result, phase, measured_only=False):
        points = series.get((phase, flow.id, "received_bps"))
        if points is not None:
            mean_s = max(mean_s, _step_s(points[0]))
            traces.append(_trace(flow.name, points[0], _mean_over_1_s(*points) / 1e6, colour[flow.name]))
    if not traces:
        return []
    # Policers with the same rate share a line.
    names: dict[float, list[str]] = {}
    for policer in result.policers:
        if policer.phase == phase:
            names.setdefault(policer.effective_rate_bps, []).append(policer.name)
    return [
        {
            "title": "Throughput at the receiver",
            "subtitle": f"frame bytes received, mean over {mean_s:.3g} s",
            "y": "",
            "unit": " Mbit/s",
            "format": "~f",
            "hover": ".2f",
            "traces": traces,
            "lines": [
                {"y": bps / 1e6, "text": f"{', '.join(those)}: {text.rate(bps)}"}
                for bps, those in names.items()
            ],
            "zero": True,
        }
    ]


def _mean_over_1_s(at: Floats, values: Floats) -> Floats:
    """Centred running mean over one second, shorter at the ends; the values themselves if further apart."""
    step_s = _step_s(at)
    filled = np.nan_to_num(values)
    kernel = np.ones(int(np.clip(round(1.0 / step_s) if step_s else 1, 1, len(filled))))
    weight = np.convolve(np.ones(len(filled)), kernel, mode="same")
    return np.asarray(np.convolve(filled, kernel, mode="same") / weight)


def _step_s(at: Floats) -> float:
    """The time between two points: long runs have few for their length. 0 for a single point."""
    return float(np.median(np.diff(at))) if len(at) > 1 else 0.0


def _rtt(result: Result, phase: str, series: Series, colour: Mapping[str, int]) -> list[dict[str, Any]]:
    traces = []
    for flow in _flows(result, phase, measured_only=True):
        points = series.get((phase, flow.id, "rtt_s"))
        if points is not None and np.isfinite(points[1]).any():
            traces.append(_trace(flow.name, points[0], points[1] * 1e3, colour[flow.name]))
    if not traces:
        return []
    return [
        {
            "title": "Round-trip time",
            "subtitle": "median of each interval",
            "y": "",
            "unit": " ms",
            "format": "~f",
            "hover": ".2f",
            "traces": traces,
        }
    ]


def _policers(result: Result, phase: str, series: Series) -> list[dict[str, Any]]:
    found = []
    for policer in result.policers:
        points = series.get((phase, policer.name, "passed_bytes"))
        if policer.phase == phase and points is not None:
            chart = _policer(policer, *points)
            if chart is not None:
                found.append(chart)
    return found


def _policer(policer: PolicerResult, at: Floats, passed: Floats) -> dict[str, Any] | None:
    """Passed bytes of the last 5 s, or of one interval of the series if longer, relative to the rate's.

    None with less traffic than that.
    """
    step_s = _step_s(at)
    window = max(round(5.0 / step_s), 1) if step_s else 0
    if not window or len(at) <= window:
        return None
    window_s = window * step_s
    due = policer.effective_rate_bps / 8 * window_s
    rate = text.rate(policer.effective_rate_bps)
    relative = (passed[window:] - passed[:-window]) / due
    return {
        "title": policer.name,
        "subtitle": f"passed in the last {window_s:.3g} s ÷ ({rate} × {window_s:.3g} s); grey: within 0.5 %",
        "y": "",
        "format": ".1%",
        "hover": ".3%",
        "traces": [_trace(policer.name, at[window:], relative, 0)],
        "band": [0.995, 1.005],
        # While flows start and end, the value is far below; only the part near the rate is shown.
        "range": [0.985, max(1.0075, float(relative.max()) + 0.0005)],
    }
