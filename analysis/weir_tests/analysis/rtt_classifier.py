# SPDX-License-Identifier: Apache-2.0
"""A classifier of two classes that can be computed by hand: `near` below an RTT, `far` above it."""

from __future__ import annotations

from weir.analysis.classifier.network import Classifier, Layer, Training
from weir.analysis.features import NAMES


def rtt_classifier(limit_ms: float) -> Classifier:
    """One linear layer, whose outputs are the RTT's distance from the limit, in ms, and its negative."""
    rtt = NAMES.index("tcp_rtt_us")
    return Classifier(
        classes=("near", "far"),
        inputs="absolute",
        window_s=1.0,
        mean=tuple(limit_ms * 1000 if at == rtt else 0.0 for at in range(len(NAMES))),
        deviation=(1000.0,) * len(NAMES),
        layers=(
            Layer(
                weights=tuple((-1.0, 1.0) if at == rtt else (0.0, 0.0) for at in range(len(NAMES))),
                biases=(0.0, 0.0),
            ),
        ),
        training=Training(campaigns=(), runs=0, windows=0, seed=0),
    )
