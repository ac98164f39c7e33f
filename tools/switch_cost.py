# SPDX-License-Identifier: Apache-2.0
"""Plots the results of the dataplane's `cost_growth` example: ns per packet over entries and over flows."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

FLOWS = "flows"


def read(path: Path) -> dict[str, list[tuple[int, float]]]:
    """Points (size, ns per packet) of each series, in the file's order."""
    series: dict[str, list[tuple[int, float]]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            series[row["series"]].append((int(row["size"]), float(row["ns_per_packet"])))
    return series


def figure(series: dict[str, list[tuple[int, float]]]) -> go.Figure:
    """Two panels with one scale: entries left, flows right."""
    plot = make_subplots(
        rows=1,
        cols=2,
        shared_yaxes=True,
        horizontal_spacing=0.05,
        subplot_titles=("by table entries (10,000 flows, or as said)", "by flows (1,000 classify entries)"),
    )
    for name, points in series.items():
        sizes, costs = zip(*points, strict=True)
        # With few flows the memory touched does not grow: the difference to the solid line is cache misses,
        # not work.
        line = {"dash": "dot"} if name.endswith(" flows)") else {}
        trace = go.Scatter(x=sizes, y=costs, name=name, mode="lines+markers", line=line)
        plot.add_trace(trace, row=1, col=2 if name == FLOWS else 1)
    plot.update_xaxes(type="log", dtick=1, exponentformat="none", separatethousands=True)
    plot.update_xaxes(title_text="entries", row=1, col=1)
    plot.update_xaxes(title_text="flows", row=1, col=2)
    plot.update_yaxes(title_text="ns per packet", rangemode="tozero", row=1, col=1)
    plot.update_yaxes(rangemode="tozero", row=1, col=2)
    plot.update_layout(template="plotly_white", width=1240, height=520, margin={"t": 60, "b": 60})
    return plot


def main() -> None:
    """Reads the CSV file named first and writes the HTML file named second."""
    if len(sys.argv) != 3:
        sys.exit("usage: switch_cost.py MEASURED.csv OUT.html")
    figure(read(Path(sys.argv[1]))).write_html(sys.argv[2], config={"displayModeBar": False})


if __name__ == "__main__":
    main()
