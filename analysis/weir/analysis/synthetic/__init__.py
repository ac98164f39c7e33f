# SPDX-License-Identifier: Apache-2.0
"""Synthetic truth for detectors: flows through bottlenecks whose kind is chosen, from a seed."""

from weir.analysis.synthetic.bottleneck import Bottleneck, Kind, Sender, simulate
from weir.analysis.synthetic.scenarios import SCENARIOS, Scenario, generate
from weir.analysis.synthetic.series import modulated_pair
from weir.analysis.synthetic.single import SINGLE_KINDS, SingleTruth, draw_single

VALIDATION_SEED = 1000
"""Thresholds of detectors are set with smaller seeds; those from here on are for judging them afterwards."""

__all__ = [
    "SCENARIOS",
    "SINGLE_KINDS",
    "VALIDATION_SEED",
    "Bottleneck",
    "Kind",
    "Scenario",
    "Sender",
    "SingleTruth",
    "draw_single",
    "generate",
    "modulated_pair",
    "simulate",
]
