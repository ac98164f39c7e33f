# SPDX-License-Identifier: Apache-2.0
"""Campaign file → :class:`Campaign`: every run with its cell, its seed, its whole experiment and a digest."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML

from weir.campaign.config import KEYS, CampaignConfig, LimitsConfig, QuickConfig
from weir.campaign.studies import STUDIES
from weir.campaign.variables import Variables
from weir.controlplane.config import (
    ConfigError,
    ExperimentConfig,
    Problem,
    Source,
    experiment_of,
    nearest,
    one_of,
    read_text,
)

Cell = Mapping[str, str]
"""Label of each axis, by the axis's name."""

MAX_RUNS = 100_000
_NS = 10**9


@dataclass(frozen=True)
class PlannedRun:
    """One run of a campaign: everything that decides what it does."""

    key: str
    """Names its directory; of its cell and repeat alone, so it stays when the matrix grows."""
    cell: Cell
    repeat: int
    seed: int
    experiment: ExperimentConfig
    data: Mapping[str, Any]
    """The experiment as its file says it."""

    @property
    def text(self) -> str:
        """The experiment as a file of its own, which `weir run` takes."""
        stream = io.StringIO()
        yaml = YAML(typ="safe", pure=True)
        yaml.default_flow_style = False
        yaml.dump(dict(self.data), stream)
        return stream.getvalue()

    @property
    def digest(self) -> str:
        """SHA-256 of all that the experiment says, but for its description."""
        said = {key: value for key, value in self.data.items() if key != "description"}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def traffic_s(self) -> float:
        """Seconds for which flows run."""
        return len(self.experiment.effective_phases()) * self.experiment.phase_duration / _NS


@dataclass(frozen=True)
class Campaign:
    """A campaign file, expanded."""

    name: str
    description: str
    text: str
    axes: Mapping[str, tuple[str, ...]]
    repeats: int
    attempts: int
    keep: str
    study: str | None
    limits: LimitsConfig
    quick: bool
    runs: tuple[PlannedRun, ...]


def load_campaign(path: Path, *, quick: bool = False) -> Campaign:
    """Read and expand a campaign file; with `quick`, its quick grid.

    Raises:
        ConfigError: the file cannot be read, or it or one of its experiments is not valid.
    """
    return parse_campaign(read_text(path), str(path), quick=quick)


def parse_campaign(text: str, filename: str = "campaign.yaml", *, quick: bool = False) -> Campaign:
    """Read and expand a campaign from YAML text; raises ConfigError."""
    source = Source.parse(text, filename)
    config = _config(source)
    if quick:
        if config.quick is None:
            raise ConfigError([f"{filename}: quick: missing; valid: what --quick changes, such as repeats"])
        config = _quick(config, config.quick, source)
    template = {key: value for key, value in source.data.items() if key not in KEYS}
    axes = {name: _labels(axis) for name, axis in config.matrix.items()}
    runs = tuple(_runs(config, axes, template, source))
    first = runs[0].experiment
    return Campaign(
        name=first.name + ("-quick" if quick else ""),
        description=first.description,
        text=text,
        axes={name: tuple(by_label) for name, by_label in axes.items()},
        repeats=config.repeats,
        attempts=config.attempts,
        keep=config.keep,
        study=config.study,
        limits=config.limits,
        quick=quick,
        runs=runs,
    )


def _config(source: Source) -> CampaignConfig:
    given = {key: source.data[key] for key in KEYS if key in source.data}
    try:
        return CampaignConfig.model_validate(given)
    except ValidationError as error:
        problems = []
        for details in error.errors():
            # Pydantic names the branch of a union, which no file has.
            location = tuple(part for part in details["loc"] if "[" not in str(part))
            problems.append(Problem(location, f"{details['msg']}; valid: {_VALID.get(location[0], _KEYS)}"))
        raise source.error(problems) from error


_KEYS = ", ".join(KEYS)
_VALID: Mapping[str | int, str] = {
    "matrix": "axes by name, each a list of values or labels with variables",
    "repeats": "a whole number from 1 to 10000",
    "attempts": "a whole number from 1 to 100",
    "variables": "values by name, of letters, digits and _",
    "quick": "matrix, repeats, variables",
    "limits": "scheduling_p99, switch_p99, each such as '2 ms'",
    "keep": "all, results",
    "study": ", ".join(STUDIES),
}


def _quick(config: CampaignConfig, quick: QuickConfig, source: Source) -> CampaignConfig:
    problems = []
    matrix: dict[str, Any] = dict(config.matrix)
    for name, wanted in quick.matrix.items():
        if name not in matrix:
            problems.append(Problem(("quick", "matrix", name), f"no such axis; {one_of(matrix)}"))
            continue
        axis = config.matrix[name]
        known = {str(label): label for label in axis}
        for index, label in enumerate(wanted):
            if str(label) not in known:
                message = f"{label!r} is not of axis {name}{nearest(str(label), known)}; {one_of(known)}"
                problems.append(Problem(("quick", "matrix", name, index), message))
        kept = [known[str(label)] for label in wanted if str(label) in known]
        matrix[name] = {str(label): axis[str(label)] for label in kept} if isinstance(axis, dict) else kept
    for name in quick.variables:
        if name not in config.variables:
            message = f"no such variable{nearest(name, config.variables)}; {one_of(config.variables)}"
            problems.append(Problem(("quick", "variables", name), message))
    if problems:
        raise source.error(problems)
    return config.model_copy(
        update={
            "matrix": matrix,
            "repeats": quick.repeats or config.repeats,
            "variables": {**config.variables, **quick.variables},
        }
    )


def _labels(axis: Any) -> dict[str, Any]:
    """Label → what the axis's name stands for, or the variables of a labelled value."""
    return dict(axis) if isinstance(axis, dict) else {str(value): value for value in axis}


def _runs(
    config: CampaignConfig, axes: Mapping[str, Mapping[str, Any]], template: dict[str, Any], source: Source
) -> Iterator[PlannedRun]:
    cells = 1
    for by_label in axes.values():
        cells *= len(by_label)
    if cells * config.repeats > MAX_RUNS:
        message = f"{cells} cells × {config.repeats} repeats are too many runs; valid: at most {MAX_RUNS}"
        raise source.error([Problem(("matrix",), message)])
    used: set[str] = set()
    for labels in itertools.product(*axes.values()):
        cell = dict(zip(axes, labels, strict=True))
        values = dict(config.variables)
        for name, label in cell.items():
            value = axes[name][label]
            values |= {name: label, **value} if isinstance(config.matrix[name], dict) else {name: value}
        variables = Variables(values)
        data = variables.substitute(template, ())
        used |= variables.used
        if variables.problems:
            raise source.error(variables.problems)
        experiment = _experiment(cell, data, source)
        for repeat in range(config.repeats):
            seed = run_seed(experiment.seed, cell, repeat)
            yield PlannedRun(
                key=run_key(cell, repeat),
                cell=cell,
                repeat=repeat,
                seed=seed,
                experiment=experiment.model_copy(update={"seed": seed}),
                data=data | {"seed": seed},
            )
    for name, axis in config.matrix.items():
        own = {name}.union(*axis.values()) if isinstance(axis, dict) else {name}
        if not own & used:
            wanted = " or ".join(f"${key}" for key in sorted(own)) or "a variable of its labels"
            message = f"changes nothing; valid: an experiment with {wanted} in it"
            raise source.error([Problem(("matrix", name), message)])


def _experiment(cell: Cell, data: dict[str, Any], source: Source) -> ExperimentConfig:
    try:
        return experiment_of(data, source)
    except ConfigError as error:
        if not cell:
            raise
        where = ", ".join(f"{name}={label}" for name, label in cell.items())
        raise ConfigError([f"{line} (in the cell {where})" for line in error.lines]) from error


def run_seed(campaign_seed: int, cell: Cell, repeat: int) -> int:
    """The seed of one run, from 0 to 2^63 - 1.

    A hash of the campaign's seed, the cell and the repeat alone: further values of an axis and further
    repeats change no other run's.
    """
    identity = json.dumps([campaign_seed, sorted(cell.items()), repeat])
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big") >> 1


def run_key(cell: Cell, repeat: int) -> str:
    """The name of a run's directory: readable, and by its last part unique."""
    words = "_".join(re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-.") for label in cell.values())
    mark = hashlib.sha256(json.dumps(sorted(cell.items())).encode()).hexdigest()[:8]
    return f"{words[:80] or 'run'}_{mark}_r{repeat + 1:03d}"
