# SPDX-License-Identifier: Apache-2.0
"""Experiment files: schema, loading with line numbers, checks, and what follows from them."""

from weir.controlplane.config.load import load_experiment, parse_experiment
from weir.controlplane.config.model import (
    ExperimentConfig,
    FlowConfig,
    HostConfig,
    MatchConfig,
    PhaseConfig,
    PolicerConfig,
    SwitchConfig,
    TelemetryConfig,
)
from weir.controlplane.config.problems import ConfigError
from weir.controlplane.config.schema import schema_text

__all__ = [
    "ConfigError",
    "ExperimentConfig",
    "FlowConfig",
    "HostConfig",
    "MatchConfig",
    "PhaseConfig",
    "PolicerConfig",
    "SwitchConfig",
    "TelemetryConfig",
    "load_experiment",
    "parse_experiment",
    "schema_text",
]
