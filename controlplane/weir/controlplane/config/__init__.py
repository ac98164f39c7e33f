# SPDX-License-Identifier: Apache-2.0
"""Experiment files: schema, loading with line numbers, checks, and the sizes of queues."""

from weir.controlplane.config.cables import COLLECTOR
from weir.controlplane.config.explain import Form
from weir.controlplane.config.lines import with_lines
from weir.controlplane.config.load import (
    Source,
    experiment_of,
    load_experiment,
    parse_experiment,
    read_text,
    validate,
    yaml_text,
)
from weir.controlplane.config.model import (
    BackgroundConfig,
    CableConfig,
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
from weir.controlplane.config.problems import ConfigError, Location, Problem, nearest, one_of
from weir.controlplane.config.queues import base_round_trips, queue_bytes
from weir.controlplane.config.schema import schema_text
from weir.controlplane.config.values import Verdict

__all__ = [
    "COLLECTOR",
    "BackgroundConfig",
    "CableConfig",
    "ChangeConfig",
    "CollectorConfig",
    "ConfigError",
    "ExperimentConfig",
    "FlowConfig",
    "Form",
    "HostConfig",
    "Location",
    "MatchConfig",
    "PhaseConfig",
    "PolicerConfig",
    "Problem",
    "Source",
    "SwitchConfig",
    "TelemetryConfig",
    "Verdict",
    "base_round_trips",
    "experiment_of",
    "load_experiment",
    "nearest",
    "one_of",
    "parse_experiment",
    "queue_bytes",
    "read_text",
    "schema_text",
    "validate",
    "with_lines",
    "yaml_text",
]
