# SPDX-License-Identifier: Apache-2.0
"""Plots the results of `make bench-pcap`: peak memory over packets, of weir and of a cross join."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import plotly.graph_objects as go


def main() -> None:
    """Reads the CSV file named first and writes the HTML file named second."""
    if len(sys.argv) != 3:
        sys.exit("usage: pcap_memory.py MEASURED.csv OUT.html")
    series: dict[str, list[tuple[int, float]]] = defaultdict(list)
    with Path(sys.argv[1]).open(newline="") as file:
        for row in csv.DictReader(file):
            series[row["series"]].append((int(row["packets"]), float(row["peak_mb"])))
    plot = go.Figure()
    for name, points in series.items():
        packets, peaks = zip(*points, strict=True)
        plot.add_trace(go.Scatter(x=packets, y=peaks, name=name, mode="lines+markers"))
    plot.update_xaxes(
        type="log", dtick=1, exponentformat="none", separatethousands=True, title_text="packets"
    )
    plot.update_yaxes(
        type="log", dtick=1, exponentformat="none", separatethousands=True, title_text="peak memory (MB)"
    )
    # A text beside it would be placed at 10^200: on logarithmic axes texts take exponents, lines do not.
    plot.add_hline(y=200, line_dash="dot", name="200 MB", showlegend=True)
    plot.update_layout(template="plotly_white", width=1000, height=480, margin={"t": 40, "b": 60})
    plot.write_html(sys.argv[2], config={"displayModeBar": False})


if __name__ == "__main__":
    main()
