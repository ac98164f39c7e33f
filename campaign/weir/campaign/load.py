# SPDX-License-Identifier: Apache-2.0
"""Expands a campaign file into a :class:`Campaign`: every run with its cell, seed, experiment and digest."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from weir.campaign.config import (
    CAMPAIGN,
    KEYS,
    NO_VARIABLE,
    VARIABLE_NAME,
    CampaignConfig,
    LimitsConfig,
    QuickConfig,
    QuickPartConfig,
)
from weir.campaign.variables import Variables, mentioned
from weir.controlplane.config import (
    BackgroundConfig,
    ConfigError,
    ExperimentConfig,
    FlowConfig,
    Location,
    Problem,
    Source,
    experiment_of,
    nearest,
    one_of,
    read_text,
    validate,
    yaml_text,
)
from weir.controlplane.config.explain import EXPERIMENT
from weir.rundir.kernel import Kernel
from weir.rundir.manifest import VirtualTime
from weir.runner.inputs import Inputs, read_inputs

Cell = Mapping[str, str]
"""A point of the matrix: axis name → label."""

Time = Literal["real", "virtual"]
KERNEL = "kernel"
"""The axis of kernels, which needs no `kernel: $kernel`. Runs that differ in it alone have the same seed."""
MAX_RUNS = 100_000
NOT_IN_DIGEST = ("description",)
"""Keys of an experiment that change nothing in its runs."""
_NS = 10**9
_BUILT_IN_DISCIPLINES = {"pfifo", "bfifo", "pfifo_fast", "pfifo_head_drop"}


@dataclass(frozen=True)
class PlannedRun:
    """One run of a campaign, with everything that determines its behaviour."""

    key: str
    """Name of its directory; depends on cell and repeat alone, so that it is stable as the matrix grows."""
    cell: Cell
    repeat: int
    seed: int
    experiment: ExperimentConfig
    data: Mapping[str, Any]
    """The experiment as parsed from YAML, after substitution."""
    inputs: Inputs = field(default_factory=dict)
    """Text of the files that it names."""
    virtual_time: VirtualTime | None = None
    """Its kernel, once `weir.campaign.virtual` has found it; None for a run in real time."""

    @property
    def text(self) -> str:
        """The experiment as a YAML file that `weir run` accepts."""
        return yaml_text(self.data)

    @property
    def digest(self) -> str:
        """SHA-256 of the experiment without its description, and of the files that it names."""
        hashed = {key: value for key, value in self.data.items() if key not in NOT_IN_DIGEST}
        if self.inputs:
            hashed["inputs"] = {
                name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.inputs.items()
            }
        return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()

    @property
    def congestion_controls(self) -> set[str]:
        """Congestion controls of its TCP senders, background included."""
        sending: tuple[FlowConfig | BackgroundConfig, ...] = (
            *self.experiment.flows,
            *self.experiment.background,
        )
        return {flow.congestion_control for flow in sending if flow.protocol == "tcp"}

    @property
    def is_virtual(self) -> bool:
        """Whether it is in virtual time."""
        return self.experiment.time == "virtual"

    def lacking(self, here: Collection[str]) -> str | None:
        """A congestion control or queueing discipline that the run's kernel lacks.

        `here` are the congestion controls of this machine's kernel, whose disciplines only a run finds out.
        """
        if self.virtual_time is None:
            return min(self.congestion_controls - set(here), default=None)
        kernel = self.virtual_time.kernel
        missing = self.congestion_controls - set(kernel.congestion_controls)
        return min(missing | self._disciplines_beyond(kernel), default=None)

    def _disciplines_beyond(self, kernel: Kernel) -> set[str]:
        queues = [host.receive_queue for host in self.experiment.hosts.values() if host.receive_queue]
        if queues and "CONFIG_IFB=y" not in kernel.config:
            return {"ifb"}
        names = {queue.discipline.partition(" ")[0] for queue in queues} - _BUILT_IN_DISCIPLINES
        return {name for name in names if f"CONFIG_NET_SCH_{name.upper()}=y" not in kernel.config}

    @property
    def is_measured(self) -> bool:
        """Whether it has a measured flow, without which the page has no figure of it."""
        return any(flow.measured for flow in self.experiment.flows)

    @property
    def traffic_s(self) -> float:
        """Duration of the traffic of all phases, in seconds."""
        return len(self.experiment.effective_phases()) * self.experiment.phase_duration / _NS


@dataclass(frozen=True)
class Campaign:
    """A campaign file, expanded."""

    name: str
    description: str
    text: str
    axes: Mapping[str, tuple[str, ...]]
    attempts: int
    keep: str
    study: str | None
    limits: LimitsConfig
    quick: bool
    runs: tuple[PlannedRun, ...]
    lacking: str = "refuse"
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of runs left out, by the congestion control or queueing discipline that their kernel lacks."""

    def labels(self, cell: Cell) -> tuple[str, ...]:
        """A cell's label on each axis, in order; empty for axes that its part does not have."""
        return tuple(cell.get(axis, "") for axis in self.axes)

    def cells(self) -> list[list[PlannedRun]]:
        """The runs of each cell, in the order of the matrix."""
        found: dict[tuple[tuple[str, str], ...], list[PlannedRun]] = {}
        for run in self.runs:
            found.setdefault(tuple(run.cell.items()), []).append(run)
        return list(found.values())

    def offered_by(self, congestion_controls: Collection[str]) -> Campaign:
        """Without the runs whose kernel lacks something of theirs, if the file has `lacking: leave_out`.

        The congestion controls of this machine's kernel are given; runs in virtual time have that of another.
        """
        if self.lacking != "leave_out":
            return self
        kept: list[PlannedRun] = []
        left_out: dict[str, int] = {}
        for run in self.runs:
            lacking = run.lacking(congestion_controls)
            if lacking is None:
                kept.append(run)
                continue
            if run.virtual_time is not None:
                lacking += f" in kernel {run.virtual_time.kernel.name}"
            left_out[lacking] = left_out.get(lacking, 0) + 1
        return replace(self, runs=tuple(kept), left_out=left_out)


@dataclass(frozen=True)
class Overrides:
    """Options of the command line that replace values of the file."""

    repeats: int | None = None
    time: Time | None = None
    kernels: Sequence[str] = ()
    """The kernel of all runs, which are then in virtual time; several are an axis."""


def load_campaign(path: Path, *, quick: bool = False, overrides: Overrides | None = None) -> Campaign:
    """Read and expand a campaign file; with `quick`, its quick grid.

    Raises:
        ConfigError: the file cannot be read, or it or one of its experiments is not valid.
    """
    return parse_campaign(read_text(path), str(path), quick=quick, overrides=overrides)


def parse_campaign(
    text: str, filename: str = "campaign.yaml", *, quick: bool = False, overrides: Overrides | None = None
) -> Campaign:
    """Read and expand a campaign from YAML text, as `load_campaign` does; raises ConfigError."""
    source = Source.parse(text, filename)
    overrides = overrides or Overrides()
    config = config_of(source)
    if without_effect := list(_without_effect(config, source)):
        raise source.error(without_effect)
    config = _with_kernels(config, overrides.kernels, filename)
    if quick and config.quick is None:
        raise ConfigError([f"{filename}: quick: missing; valid: what --quick changes, such as repeats"])
    template = {key: value for key, value in source.data.items() if key not in KEYS}
    in_file = template.get("time", "real")
    time = overrides.time or ("virtual" if overrides.kernels and in_file == "real" else None)
    if time is not None:
        template["time"] = time
    if time == "real":  # on this machine's kernel, as `weir run --time real` of the same file
        template.pop(KERNEL, None)
    if overrides.kernels:
        template[KERNEL] = f"${KERNEL}" if len(overrides.kernels) > 1 else overrides.kernels[0]
    grids = [
        grid if overrides.repeats is None else replace(grid, repeats=overrides.repeats)
        for grid in _grids(config, quick, source)
    ]
    if sum(grid.size for grid in grids) > MAX_RUNS:
        message = f"{sum(grid.size for grid in grids)} runs are too many; valid: at most {MAX_RUNS}"
        raise source.error([Problem(("matrix",), message)])
    runs = tuple(run for grid in grids for run in _runs(grid, template, source))
    if different := next((run for run in runs if run.experiment.name != runs[0].experiment.name), None):
        message = (
            f"is {runs[0].experiment.name!r} in one cell and {different.experiment.name!r} in another; "
            "valid: the same in all, as it names the campaign's folder"
        )
        raise source.error([Problem(("name",), message)])
    axes: dict[str, dict[str, None]] = {}
    for grid in grids:
        for name, by_label in grid.axes.items():
            axes.setdefault(name, {}).update(dict.fromkeys(by_label))
    first = runs[0].experiment
    return Campaign(
        # Runs in real and in virtual time have separate folders.
        name=first.name + ("-quick" if quick else "") + ("" if time in (None, in_file) else f"-{time}"),
        description=first.description,
        text=text,
        axes={name: tuple(labels) for name, labels in axes.items()},
        attempts=config.attempts,
        keep=config.keep,
        study=config.study,
        limits=config.limits,
        quick=quick,
        runs=runs,
        lacking=config.lacking,
    )


def _with_kernels(config: CampaignConfig, kernels: Sequence[str], filename: str) -> CampaignConfig:
    """The file's keys with several kernels of the command line as an axis."""
    axes = {*config.matrix, *(name for part in config.parts.values() for name in part.matrix)}
    if kernels and KERNEL in axes:
        raise ConfigError([f"{filename}: --kernel: the file has an axis {KERNEL}; valid: --only {KERNEL}=…"])
    if len(kernels) < 2:
        return config
    return config.model_copy(update={"matrix": {**config.matrix, KERNEL: tuple(kernels)}})


def config_of(source: Source) -> CampaignConfig:
    """The keys of a campaign file besides its experiment's; raises ConfigError."""
    given = {key: source.data[key] for key in KEYS if key in source.data}
    config, problems = validate(CAMPAIGN, given, lambda _: ())
    problems = [_of_name(problem) for problem in problems] + _unknown(source)
    if problems or config is None:
        raise source.error(problems)
    return config


def _without_effect(config: CampaignConfig, source: Source) -> Iterator[Problem]:
    """Variables of labels and parts that change nothing, so that runs would not be what their cell says.

    Nothing in the file uses them, as after a typo; or an axis sets the same variable.
    """
    used = sorted(mentioned(source.data))
    grids = [((), config.matrix)] + [(("parts", label), part.matrix) for label, part in config.parts.items()]
    for at, matrix in grids:
        axes = {**config.matrix, **matrix}
        sets = {name: _set_by(name, axis) for name, axis in axes.items()}
        for axis, labels in matrix.items():
            others = {name: other for other in axes if other != axis for name in sets[other]}
            if not isinstance(labels, dict):
                if at and axis in others:
                    yield from _idle((*at, "matrix", axis), axis, used, others)
                continue
            for label, variables in labels.items():
                for name in variables:
                    where: Location = (*at, "matrix", axis, label, name)
                    yield from _idle(where, name, [*used, KERNEL] if axis == KERNEL else used, others)
        if at:
            by_axis = {name: axis for axis, names in sets.items() for name in names}
            for name in config.parts[at[1]].variables:
                yield from _idle((*at, "variables", name), name, used, by_axis)


def _set_by(name: str, axis: Any) -> set[str]:
    """The variables that an axis sets."""
    return {name}.union(*axis.values()) if isinstance(axis, dict) else {name}


def _idle(
    location: Location, name: str, used: Collection[str], by_axis: Mapping[str, str]
) -> Iterator[Problem]:
    """A problem if nothing uses the variable that is set at a location, or an axis sets it too."""
    if name in by_axis:
        message = f"axis {by_axis[name]} sets ${name} as well; valid: one of the two"
        yield Problem(location, message)
    elif name not in used:
        message = f"nothing uses ${name}{nearest(name, used)}; valid: a variable that the file uses"
        yield Problem(location, message)


def _of_name(problem: Problem) -> Problem:
    """The problem in plain words if it is of a variable's name, for which pydantic shows its pattern."""
    name = str(problem.location[-1])
    if "should match pattern" in problem.message and re.match(VARIABLE_NAME, name) is None:
        return replace(problem, message=f"{name!r} {NO_VARIABLE}")
    return problem


def _unknown(source: Source) -> list[Problem]:
    """Keys that neither a campaign nor an experiment has, named before the variables that one may define."""
    known = (*KEYS, *ExperimentConfig.model_fields)
    return [
        Problem((key,), EXPERIMENT.hints.get((key,), f"unknown key{nearest(key, known)}; {one_of(known)}"))
        for key in source.data
        if key not in known
    ]


PART = "part"


@dataclass(frozen=True)
class _Grid:
    """One matrix with its variables; `axes` maps each axis and label to the label's value."""

    axes: Mapping[str, Mapping[str, Any]]
    labelled: frozenset[str]
    """Axes whose labels each set variables."""
    variables: Mapping[str, Any]
    repeats: int
    at: tuple[str, ...]
    """Location of the grid in the file."""

    @property
    def size(self) -> int:
        return self.repeats * math.prod(len(by_label) for by_label in self.axes.values())


def _grids(config: CampaignConfig, quick: bool, source: Source) -> list[_Grid]:
    """The file's matrix, or one for each of its parts."""
    matrix, variables, repeats = dict(config.matrix), dict(config.variables), config.repeats
    of_quick = config.quick.repeats if quick and config.quick is not None else None
    repeats = of_quick or repeats
    if quick and config.quick is not None:
        matrix, variables = _quick(matrix, variables, config.quick, ("quick",), source)
    if not config.parts:
        return [_grid(matrix, variables, repeats, ())]
    grids = []
    for label, part in config.parts.items():
        part_matrix, part_variables = dict(part.matrix), variables | part.variables
        for name in {PART} & {*matrix, *part_matrix} or set(matrix) & set(part_matrix):
            message = f"axis {name} is already defined; valid: another name"
            raise source.error([Problem(("parts", label, "matrix", name), message)])
        if quick:
            at = ("parts", label, "quick")
            part_matrix, part_variables = _quick(part_matrix, part_variables, part.quick, at, source)
        grids.append(
            _grid(
                {PART: [label], **matrix, **part_matrix},
                part_variables,
                of_quick or part.repeats or repeats,
                ("parts", label),
            )
        )
    return grids


def _grid(
    matrix: Mapping[str, Any], variables: Mapping[str, Any], repeats: int, at: tuple[str, ...]
) -> _Grid:
    labelled = frozenset(name for name, axis in matrix.items() if isinstance(axis, dict))
    return _Grid({name: _labels(axis) for name, axis in matrix.items()}, labelled, variables, repeats, at)


def _quick(
    matrix: dict[str, Any],
    variables: dict[str, Any],
    quick: QuickConfig | QuickPartConfig,
    at: tuple[str, ...],
    source: Source,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Matrix and variables of the quick grid; `at` is its location in the file."""
    problems = []
    kept: dict[str, Any] = dict(matrix)
    for name, wanted in quick.matrix.items():
        if name not in matrix:
            problems.append(Problem((*at, "matrix", name), f"no such axis; {one_of(matrix)}"))
            continue
        axis = matrix[name]
        known = {str(label): label for label in axis}
        for index, label in enumerate(wanted):
            if str(label) not in known:
                message = f"{label!r} is not on axis {name}{nearest(str(label), known)}; {one_of(known)}"
                problems.append(Problem((*at, "matrix", name, index), message))
        labels = [known[str(label)] for label in wanted if str(label) in known]
        kept[name] = {str(label): axis[str(label)] for label in labels} if isinstance(axis, dict) else labels
    for name in quick.variables:
        if name not in variables:
            message = f"no such variable{nearest(name, variables)}; {one_of(variables)}"
            problems.append(Problem((*at, "variables", name), message))
    if problems:
        raise source.error(problems)
    return kept, variables | quick.variables


def _labels(axis: Any) -> dict[str, Any]:
    """Label → the value of the axis's variable, or the variables that the label sets."""
    return dict(axis) if isinstance(axis, dict) else {str(value): value for value in axis}


def _runs(grid: _Grid, template: dict[str, Any], source: Source) -> Iterator[PlannedRun]:
    if KERNEL in grid.axes and KERNEL not in template:
        template = template | {KERNEL: f"${KERNEL}"}
    used: set[str] = set()
    for labels in itertools.product(*grid.axes.values()):
        cell = dict(zip(grid.axes, labels, strict=True))
        values = dict(grid.variables)
        for name, label in cell.items():
            value = grid.axes[name][label]
            values |= {name: label, **value} if name in grid.labelled else {name: value}
        variables = Variables(values)
        data = variables.substitute(template, ())
        used |= variables.used
        if variables.problems:
            raise source.error(variables.problems)
        experiment = _experiment(cell, data, source)
        inputs = read_inputs(experiment, Path(source.filename))
        for repeat in range(grid.repeats):
            seed = run_seed(experiment.seed, cell, repeat)
            yield PlannedRun(
                key=run_key(cell, repeat),
                cell=cell,
                repeat=repeat,
                seed=seed,
                experiment=experiment.model_copy(update={"seed": seed}),
                data=data | {"seed": seed},
                inputs=inputs,
            )
    for name, by_label in grid.axes.items():
        set_by_axis = _set_by(name, by_label) if name in grid.labelled else {name}
        if name != PART and not set_by_axis & used:
            wanted = " or ".join(f"${key}" for key in sorted(set_by_axis)) or "a variable of its labels"
            message = f"changes nothing; valid: an experiment that uses {wanted}"
            raise source.error([Problem((*grid.at, "matrix", name), message)])


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

    A hash of the campaign's seed, the cell and the repeat alone, so that added values and repeats do not
    change the seeds of existing runs. Kernels are compared under the same choices: they change no seed.
    """
    identity = json.dumps([campaign_seed, sorted(item for item in cell.items() if item[0] != KERNEL), repeat])
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big") >> 1


def run_key(cell: Cell, repeat: int) -> str:
    """The name of a run's directory: readable labels, a digest that makes it unique, and the repeat."""
    labels = "_".join(re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-.") for label in cell.values())
    digest = hashlib.sha256(json.dumps(sorted(cell.items())).encode()).hexdigest()[:8]
    return f"{labels[:80] or 'run'}_{digest}_r{repeat + 1:03d}"
