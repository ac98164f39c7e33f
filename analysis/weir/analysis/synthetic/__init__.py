# SPDX-License-Identifier: Apache-2.0
"""Simulated flows with known truth for detectors: through a chosen kind of bottleneck, from a seed."""

from weir.analysis.synthetic.bottleneck import Bottleneck, Kind, Sender, simulate
from weir.analysis.synthetic.path import delayed, relative_delays, with_jitter
from weir.analysis.synthetic.paths import PathFactors, draw_factors, path_truth, simulate_path
from weir.analysis.synthetic.scenarios import SCENARIOS, Scenario, generate
from weir.analysis.synthetic.series import modulated_pair
from weir.analysis.synthetic.single import SINGLE_KINDS, SingleTruth, draw_single

VALIDATION_SEED = 1000
"""Detectors' thresholds were chosen with smaller seeds; seeds from here on are for their validation."""

__all__ = [
    "SCENARIOS",
    "SINGLE_KINDS",
    "VALIDATION_SEED",
    "Bottleneck",
    "Kind",
    "PathFactors",
    "Scenario",
    "Sender",
    "SingleTruth",
    "delayed",
    "draw_factors",
    "draw_single",
    "generate",
    "modulated_pair",
    "path_truth",
    "relative_delays",
    "simulate",
    "simulate_path",
    "with_jitter",
]
