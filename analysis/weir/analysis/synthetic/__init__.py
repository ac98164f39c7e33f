# SPDX-License-Identifier: Apache-2.0
"""Synthetic truth for detectors: flows through bottlenecks whose kind is chosen, from a seed."""

from weir.analysis.synthetic.bottleneck import Bottleneck, Kind, Sender, simulate
from weir.analysis.synthetic.scenarios import SCENARIOS, Scenario, generate
from weir.analysis.synthetic.series import modulated_pair

__all__ = [
    "SCENARIOS",
    "Bottleneck",
    "Kind",
    "Scenario",
    "Sender",
    "generate",
    "modulated_pair",
    "simulate",
]
