# SPDX-License-Identifier: Apache-2.0
"""JSON Schema of the experiment file, for editors; experiments/experiment.schema.json is its output."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from weir.controlplane.config.model import ExperimentConfig
from weir.controlplane.config.values import NAME_PATTERN
from weir.controlplane.units import RATE, SHARE, SIZE, TIME

_DIMENSIONS = {dimension.pattern: dimension for dimension in (RATE, SHARE, SIZE, TIME)}


def schema_text() -> str:
    """The schema (JSON Schema 2020-12) as text that ends with a newline; deterministic."""
    schema = schema_of(ExperimentConfig, "weir experiment")
    schema["properties"]["hosts"]["propertyNames"] = {"pattern": f"^{NAME_PATTERN}$"}
    return as_text(schema)


def schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    """The schema of a file's model, with the defaults of quantities written with their units."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(by_alias=True),
        "title": title,
    }
    _write_defaults_as_files_do(schema)
    return schema


def as_text(schema: dict[str, Any]) -> str:
    """The text of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _write_defaults_as_files_do(node: Any) -> None:
    """Write defaults of quantities with their unit, and drop the defaults that are null."""
    if isinstance(node, dict):
        dimension = _DIMENSIONS.get(str(node.get("pattern")))
        if dimension is not None and isinstance(node.get("default"), int):
            node["default"] = dimension.format(node["default"])
        if "default" in node and node["default"] is None:
            del node["default"]
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _write_defaults_as_files_do(child)
