# SPDX-License-Identifier: Apache-2.0
"""Experiment files: schema, loading with line numbers, checks, and what follows from them."""

from weir.controlplane.config.load import load_experiment, parse_experiment
from weir.controlplane.config.model import (
    ChangeConfig,
    CollectorConfig,
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
from weir.controlplane.config.values import Verdict

__all__ = [
    "ChangeConfig",
    "CollectorConfig",
    "ConfigError",
    "ExperimentConfig",
    "FlowConfig",
    "HostConfig",
    "MatchConfig",
    "PhaseConfig",
    "PolicerConfig",
    "SwitchConfig",
    "TelemetryConfig",
    "Verdict",
    "load_experiment",
    "parse_experiment",
    "schema_text",
]
