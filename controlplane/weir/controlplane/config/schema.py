# SPDX-License-Identifier: Apache-2.0
"""JSON Schema of the experiment file, for editors; experiments/experiment.schema.json is its output."""

from __future__ import annotations

import json

from weir.controlplane.config.model import ExperimentConfig


def schema_text() -> str:
    """The schema (JSON Schema 2020-12) as text that ends with a newline; deterministic."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **ExperimentConfig.model_json_schema(by_alias=True),
        "title": "weir experiment",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
