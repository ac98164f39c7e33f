# SPDX-License-Identifier: Apache-2.0
"""The keys of a campaign file in addition to its experiment's: matrix, repeats, quick grid, limits."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from weir.campaign.studies import STUDIES
from weir.controlplane.config import Form, nearest, one_of
from weir.controlplane.config.schema import as_text, schema_of
from weir.controlplane.config.values import TimeNs

Label = StrictStr | StrictInt | StrictFloat | StrictBool
VARIABLE_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"
VariableName = Annotated[StrictStr, Field(pattern=VARIABLE_NAME)]
_AXIS = "a list of values, such as [1 ms, 2 ms], or labels with variables, such as {short: {delay: 1 ms}}"


def _values(value: Any) -> Any:
    """The values of a list on an axis, each once: pydantic's errors would name every kind of value."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"{_shown(value)} is not a list; valid: such as [1 ms, 2 ms]")
    if not value:
        raise ValueError("has no value; valid: at least one")
    first: dict[str, int] = {}
    for number, item in enumerate(value):
        if not isinstance(item, str | int | float):
            raise ValueError(
                f"item {number + 1} is {_shown(item)}; valid: text, a number, true, false, "
                "or labels that set a variable to it"
            )
        if str(item) in first:
            raise ValueError(
                f"item {number + 1} is {item!r}, and so is item {first[str(item)]}; valid: each value once, "
                "and repeats for more runs"
            )
        first[str(item)] = number + 1
    return value


def _axis(value: Any) -> Any:
    """An axis of either kind, for the same reason."""
    if isinstance(value, list | tuple):
        return _values(value)
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is not an axis; valid: {_AXIS}")
    if not value:
        raise ValueError(f"has no label; valid: {_AXIS}")
    for label, variables in value.items():
        if not isinstance(variables, dict):
            raise ValueError(f"label {label!r} has {_shown(variables)}, not variables; valid: {_AXIS}")
        for name in variables:
            if re.match(VARIABLE_NAME, name) is None:
                raise ValueError(f"label {label!r}: {name!r} {NO_VARIABLE}")
    return value


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "nothing" if value is None else repr(value)


NO_VARIABLE = "cannot be the name of a variable; valid: A-Z a-z 0-9 _, the first no digit"
Values = Annotated[tuple[Label, ...], Field(min_length=1), BeforeValidator(_values)]
Axis = Annotated[
    Annotated[tuple[Label, ...], Field(min_length=1)]
    | Annotated[dict[StrictStr, dict[VariableName, Any]], Field(min_length=1)],
    BeforeValidator(_axis),
]


def _study(name: str) -> str:
    if name not in STUDIES:
        raise ValueError(f"no study {name!r}{nearest(name, STUDIES)}; {one_of(STUDIES)}")
    return name


StudyName = Annotated[StrictStr, AfterValidator(_study), Field(json_schema_extra={"enum": list(STUDIES)})]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True
    )


class QuickConfig(_Model):
    """What `--quick` changes: a grid that shows the same on a small machine in a short time."""

    matrix: dict[VariableName, Values] = {}
    """Axes with the values that stay; an axis that is not named keeps all."""
    repeats: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    """Runs of each cell."""
    variables: dict[VariableName, Any] = {}
    """Variables with another value."""


class QuickPartConfig(_Model):
    """What `--quick` changes of a part."""

    matrix: dict[VariableName, Values] = {}
    """Axes of the part with the values that stay; an axis that is not named keeps all."""
    variables: dict[VariableName, Any] = {}
    """Variables with another value."""


class PartConfig(_Model):
    """A grid of its own beside others; the file's matrix, variables and experiment are common to all."""

    matrix: dict[VariableName, Axis] = {}
    """Further axes."""
    variables: dict[VariableName, Any] = {}
    """Further variables, or other values."""
    repeats: Annotated[StrictInt, Field(ge=1, le=10_000)] | None = None
    """Runs of each of its cells; by default the file's number."""
    quick: QuickPartConfig = QuickPartConfig()
    """What `--quick` changes of it."""


class LimitsConfig(_Model):
    """When a run is marked invalid because the machine was too busy for its measurement."""

    scheduling_p99: TimeNs = 2_000_000
    """How late a process that waits for a moment woke up, in 99 of 100 cases, while flows were running."""
    switch_p99: TimeNs = 3_000_000
    """How much longer than its link's delay a frame was under way, in 99 of 100 cases."""


class CampaignConfig(_Model):
    """The keys of a campaign file that are not its experiment's."""

    matrix: dict[VariableName, Axis] = {}
    """Axes: a list of values, each of which `$axis` stands for; or labels, each with its own variables."""
    parts: dict[StrictStr, PartConfig] = {}
    """Grids beside each other, by label; a run's part is on its axis `part`. Without them there is one."""
    repeats: Annotated[StrictInt, Field(ge=1, le=10_000)] = 1
    """Runs of each cell of the matrix, each with a seed of its own."""
    variables: dict[VariableName, Any] = {}
    """What `$name` stands for in the experiment; any YAML, which may name others."""
    quick: QuickConfig | None = None
    """The grid of `--quick`."""
    limits: LimitsConfig = LimitsConfig()
    """When a run counts as invalid."""
    attempts: Annotated[StrictInt, Field(ge=1, le=100)] = 3
    """How often a run is tried that fails."""
    study: StudyName | None = None
    """The published study whose figures and numbers the page sets beside those of the runs."""
    lacking: Literal["refuse", "leave_out"] = "refuse"
    """Whether a campaign is refused, or the run left out, if the kernel lacks a run's congestion control, or
    in virtual time its queueing discipline."""
    keep: Literal["all", "results"] = "all"
    """results: the captures and reports of a run are deleted once it is analysed."""


KEYS = tuple(CampaignConfig.model_fields)
"""Top-level keys of a campaign file that are not its experiment's."""
CAMPAIGN = Form(CampaignConfig, "campaign", "name, matrix, hosts, flows")


def campaign_schema_text() -> str:
    """JSON Schema of campaign files as text that ends with a newline; it allows any key of an experiment."""
    schema = schema_of(CampaignConfig, "weir campaign")
    schema["additionalProperties"] = True
    return as_text(schema)
