# SPDX-License-Identifier: Apache-2.0
"""Plots the results of `make bench-switch`: what forwarders forward through veths, median, least and most."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

KINDS = (
    ("packets_per_s", 1e6, "64 bytes, million packets/s"),
    ("packets_per_s_1514", 1e6, "1,514 bytes, million packets/s"),
    ("tcp_bps", 1e9, "TCP, Gbit/s"),
)
"""A key of the figures, the divisor for its unit, and its heading."""
OURS, OTHERS = "#0d9488", "#94a3b8"


def main() -> None:
    """Reads the JSON file named first and writes the HTML file named second."""
    if len(sys.argv) != 3:
        sys.exit("usage: switch_speed.py MEASURED.json OUT.html")
    figures = json.loads(Path(sys.argv[1]).read_text())["figures"]
    names = list(reversed(figures))
    plot = make_subplots(1, len(KINDS), shared_yaxes=True, subplot_titles=[heading for *_, heading in KINDS])
    for column, (kind, unit, _) in enumerate(KINDS, start=1):
        least, middle, most = zip(
            *([value / unit for value in figures[name][kind]] for name in names), strict=True
        )
        above = [high - value for high, value in zip(most, middle, strict=True)]
        below = [value - low for low, value in zip(least, middle, strict=True)]
        bars = go.Bar(
            y=names,
            x=middle,
            orientation="h",
            marker_color=[OURS if name == "weir" else OTHERS for name in names],
            text=[f"{value:.2f}" for value in middle],
            textposition="auto",
            insidetextanchor="start",
            error_x={"type": "data", "array": above, "arrayminus": below, "color": "#334155"},
        )
        plot.add_trace(bars, 1, column)
        plot.update_xaxes(rangemode="tozero", row=1, col=column)
    plot.update_layout(
        template="plotly_white", width=1260, height=340, showlegend=False, margin={"t": 40, "b": 40}
    )
    plot.write_html(sys.argv[2], config={"displayModeBar": False})


if __name__ == "__main__":
    main()
