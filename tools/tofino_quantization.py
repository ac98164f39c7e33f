# SPDX-License-Identifier: Apache-2.0
"""Plots by how much Tofino's meters miss the configured value, for random rates and bursts."""

from __future__ import annotations

import math
import random
import sys

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from weir.controlplane.targets.tofino import TOFINO, TOFINO2, Tofino

PAIRS = 10_000
RATES_BPS = (1e6, 1e11)
BURSTS_BYTES = (1514, 16e6)
COLOURS = {"rate": "#1f77b4", "burst": "#d62728"}


def random_pairs(seed: int) -> list[tuple[int, int]]:
    """Pairs of (bytes/s, bytes), both log-uniform."""
    draw = random.Random(seed)

    def even(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    return [(int(even(*RATES_BPS)) // 8, int(even(*BURSTS_BYTES))) for _ in range(PAIRS)]


def errors(target: Tofino, pairs: list[tuple[int, int]]) -> dict[str, list[float]]:
    """By how many percent each pair's rate and burst fall short."""
    effective = [target.effective(rate, burst) for rate, burst in pairs]
    asked = list(zip(effective, pairs, strict=True))
    return {
        "rate": [100 * (1 - got.rate_bps / (8 * rate)) for got, (rate, _) in asked],
        "burst": [100 * (1 - got.burst_bytes / burst) for got, (_, burst) in asked],
    }


def figure() -> go.Figure:
    """The error of rates over the rate, of bursts over the burst, and the distribution of both errors."""
    titles = (f"{TOFINO.name}: rate", f"{TOFINO.name}: burst", "share of pairs whose error is at most")
    plot = make_subplots(rows=1, cols=3, horizontal_spacing=0.07, subplot_titles=titles)
    pairs = random_pairs(seed=1)
    asked = {"rate": [8 * rate for rate, _ in pairs], "burst": [burst for _, burst in pairs]}
    share = np.arange(1, PAIRS + 1) / PAIRS
    for target, dash in ((TOFINO, "solid"), (TOFINO2, "dot")):
        for column, (name, off) in enumerate(errors(target, pairs).items(), 1):
            colour = COLOURS[name]
            if target is TOFINO:
                marker = {"size": 2, "color": colour, "opacity": 0.5}
                points = go.Scattergl(x=asked[name], y=off, mode="markers", marker=marker, showlegend=False)
                plot.add_trace(points, row=1, col=column)
            line = {"color": colour, "dash": dash}
            plot.add_trace(
                go.Scatter(x=np.sort(off), y=share, name=f"{name}, {target.name}", line=line), row=1, col=3
            )
            print(f"{target.name} {name}: median {np.median(off):.3f} %, largest {max(off):.3f} %")
    plot.update_xaxes(type="log", dtick=1, exponentformat="SI", row=1, col=1, title_text="asked rate, bit/s")
    plot.update_xaxes(type="log", dtick=1, exponentformat="SI", row=1, col=2, title_text="asked burst, bytes")
    plot.update_xaxes(title_text="too little, %", rangemode="tozero", row=1, col=3)
    plot.update_yaxes(rangemode="tozero")
    plot.update_yaxes(title_text="too little, %", row=1, col=1)
    plot.update_layout(template="plotly_white", width=1240, height=460, margin={"t": 60, "b": 60})
    return plot


def main() -> None:
    """Writes the HTML file named first."""
    if len(sys.argv) != 2:
        sys.exit("usage: tofino_quantization.py OUT.html")
    figure().write_html(sys.argv[1], config={"displayModeBar": False})


if __name__ == "__main__":
    main()
