# SPDX-License-Identifier: Apache-2.0
"""Rewords pydantic's errors for the author of a config, and replaces invalid values by examples."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from weir.controlplane.config.model import ExperimentConfig
from weir.controlplane.config.problems import Location, Problem, nearest, one_of

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, eq=False)
class Form(Generic[Model]):
    """A kind of file, as messages about such files need it."""

    model: type[Model]
    what: str
    """The word for such a file in messages: "experiment"."""
    keys: str
    """The first keys that such a file has."""
    hints: Mapping[Location, str] = field(default_factory=dict)
    """Messages for keys that do not exist but are likely to be tried."""

    @property
    def one(self) -> str:
        """Such a file, in a sentence: "an experiment"."""
        return f"{'an' if self.what[0] in 'aeiou' else 'a'} {self.what}"


@functools.cache
def _schema(form: Form[Any]) -> dict[str, Any]:
    """The schema of a form, which takes a tenth of a second and only errors need."""
    schema: dict[str, Any] = form.model.model_json_schema(by_alias=True)
    return schema


_WRONG_TYPE = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

OF_CAMPAIGNS: tuple[Location, ...] = (("matrix",), ("parts",), ("repeats",))
"""Keys by which a file is seen to be a campaign's."""
EXPERIMENT = Form(
    ExperimentConfig,
    "experiment",
    "name, hosts, flows, phases",
    {
        **dict.fromkeys(
            OF_CAMPAIGNS, "this is a campaign, not one experiment; valid: `weir campaign` of this file"
        ),
        ("analysis",): "every analysis is made of every run; valid: leave it out",
        ("traffic",): "traffic is TCP flows; valid: flows",
        ("topology",): "a topology is hosts around one switch; valid: hosts",
    },
)


def explain(form: Form[Any], error: ValidationError) -> list[Problem]:
    """One problem for each of pydantic's errors, with its key and the valid values."""
    return [_explain(form, details) for details in error.errors() if not _is_follow_up(details)]


def repair(
    form: Form[Any], data: dict[str, Any], error: ValidationError
) -> tuple[dict[str, Any], frozenset[Location]]:
    """A copy of ``data`` without unknown keys and with examples for invalid values; and their locations."""
    fixed: dict[str, Any] = copy.deepcopy(data)
    changed: set[Location] = set()
    for details in error.errors():
        if _is_follow_up(details):
            continue
        location = _location(details)
        parent = _parent(fixed, location)
        if parent is None or not location:
            continue
        key: Any = location[-1]
        if details["type"] == "extra_forbidden":
            parent.pop(key, None)
        elif details["loc"][-1:] == ("[key]",):
            parent[f"repaired{len(changed)}"] = parent.pop(key, {})
            changed.add(location)
        else:
            parent[key] = copy.deepcopy(_example(form, location))
            changed.add(location)
    return fixed, frozenset(changed)


def _explain(form: Form[Any], details: ErrorDetails) -> Problem:
    location, value, kind = _location(details), details["input"], details["type"]
    context: Mapping[str, Any] = details.get("ctx", {})
    if kind == "value_error":
        return Problem(location, str(context["error"]))
    if kind == "extra_forbidden" and location in form.hints:
        return Problem(location, form.hints[location])
    if kind == "extra_forbidden":
        known = list(_schema_at(form, location[:-1]).get("properties", {}))
        return Problem(location, f"unknown key{nearest(str(location[-1]), known)}; {one_of(known)}")
    schema = _schema_at(form, location)
    if kind == "missing":
        return Problem(location, f"missing; {_valid(schema)}")
    if kind == "literal_error":
        choices = _choices(schema)
        return Problem(location, f"{value!r} is not known{nearest(str(value), choices)}; {one_of(choices)}")
    if kind in _WRONG_TYPE:
        return Problem(location, f"{_shown(value)} is not {_WRONG_TYPE[kind]}; {_valid(schema)}")
    if kind in {"too_short", "too_long"}:
        limit = context.get("min_length", context.get("max_length"))
        least = "at least" if kind == "too_short" else "at most"
        return Problem(location, f"has {context.get('actual_length')}; valid: {least} {limit}")
    if kind in {"greater_than_equal", "less_than_equal"}:
        return Problem(location, f"{value} is out of range; valid: {_range(schema)}")
    return Problem(location, f"{_shown(value)}: {details['msg'].lower()}; {_valid(schema)}")


def _is_follow_up(details: ErrorDetails) -> bool:
    """Whether a list is too short only because pydantic left out invalid items, which it reports as well."""
    least = details.get("ctx", {}).get("min_length", 0)
    return details["type"] == "too_short" and len(details["input"]) >= least


def _location(details: ErrorDetails) -> Location:
    return tuple(part for part in details["loc"] if part != "[key]")


def _parent(data: Any, location: Location) -> Any:
    for part in location[:-1]:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data if isinstance(data, dict | list) else None


def _resolve(form: Form[Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Follow references, and drop the alternative null, which no config writes."""
    while True:
        if "$ref" in schema:
            schema = _schema(form)["$defs"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema and any(branch == {"type": "null"} for branch in schema["anyOf"]):
            branches = [branch for branch in schema["anyOf"] if branch != {"type": "null"}]
            schema = {**branches[0], **({"examples": schema["examples"]} if "examples" in schema else {})}
        else:
            return schema


def _schema_at(form: Form[Any], location: Location) -> dict[str, Any]:
    """The JSON Schema of the value at ``location``; empty if the schema has no such location."""
    schema = _resolve(form, _schema(form))
    for part in location:
        if isinstance(part, int):
            inner = schema.get("items")
        else:
            inner = schema.get("properties", {}).get(part)
            if inner is None:
                inner = schema.get("additionalProperties") or next(
                    iter(schema.get("patternProperties", {}).values()), None
                )
        if not isinstance(inner, dict):
            return {}
        schema = _resolve(form, inner)
    return schema


def _choices(schema: dict[str, Any]) -> list[str]:
    return [str(choice) for choice in schema.get("enum", [schema["const"]] if "const" in schema else [])]


def _range(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at least {low}" if low is not None else f"at most {high}"


def _valid(schema: dict[str, Any]) -> str:
    if _choices(schema):
        return one_of(_choices(schema))
    if "minimum" in schema or "maximum" in schema:
        return f"valid: {_range(schema)}"
    if "properties" in schema:
        return f"valid: a mapping with {', '.join(schema.get('required') or schema['properties'])}"
    if schema.get("type") == "array":
        return "valid: a list"
    if schema.get("type") == "object":
        return "valid: a mapping by name"
    if schema.get("type") == "boolean":
        return "valid: true, false"
    if schema.get("examples"):
        return f"valid: such as {schema['examples'][0]!r}"
    return "valid: text"


def _example(form: Form[Any], location: Location) -> Any:
    """A valid value for ``location``, so that the checks can continue after an invalid one."""
    return _example_of(form, _schema_at(form, location))


def _example_of(form: Form[Any], schema: dict[str, Any]) -> Any:
    schema = _resolve(form, schema)
    if schema.get("examples"):
        return schema["examples"][0]
    if _choices(schema):
        return _choices(schema)[0]
    if "properties" in schema:
        return {key: _example_of(form, schema["properties"][key]) for key in schema.get("required", [])}
    if schema.get("type") == "array":
        return [_example_of(form, schema["items"]) for _ in range(schema.get("minItems", 0))]
    if schema.get("type") == "object":
        inner = next(iter(schema.get("patternProperties", {}).values()), None) or schema.get(
            "additionalProperties"
        )
        return {
            f"repaired{i}": _example_of(form, inner) if inner else {}
            for i in range(schema.get("minProperties", 0))
        }
    if schema.get("type") == "boolean":
        return False
    return schema.get("minimum", 0) if schema.get("type") == "integer" else ""


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)
