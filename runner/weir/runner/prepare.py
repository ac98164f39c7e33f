# SPDX-License-Identifier: Apache-2.0
"""Creates a run directory with experiment, the files that it names, and manifest, before the run starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weir.controlplane.config import (
    COLLECTOR,
    ConfigError,
    ExperimentConfig,
    Source,
    experiment_of,
    read_text,
)
from weir.kernel.debian import DEBIAN_SERIES
from weir.kernel.store import KernelStore, kernels_folder
from weir.rundir.directory import RunDirectory, held, make_run_dir, point_latest_to
from weir.rundir.manifest import CampaignRun, TestbedRecord, VirtualTime
from weir.rundir.manifest_file import ManifestFile
from weir.rundir.whole_files import write_whole
from weir.runner.checks import check_machine, check_place, check_runnable, check_virtual
from weir.runner.ended import end_recorded
from weir.runner.inputs import Inputs, keep_inputs, read_inputs
from weir.testbed.inventory import TESTBED, TestbedConfig
from weir.testbed.joined import on_testbed, problems
from weir.testbed.load import parse_testbed

MEMORY_MB = 1024
"""Memory of a guest, most of which is its cache of files."""
EPOCH_NS = 946_684_800_000_000_000
"""The wall clock at the start of a run in virtual time, 2000-01-01 00:00 UTC, so that repeats have the same
time stamps, which cannot be mistaken for those of real time."""


@dataclass(frozen=True)
class OnTestbed:
    """The testbed of a run: its file, the text of it, and what that says."""

    path: Path
    text: str
    config: TestbedConfig

    @classmethod
    def read(cls, path: Path) -> OnTestbed:
        """Read the file. Raises ConfigError."""
        return cls.parse(read_text(path, TESTBED), path)

    @classmethod
    def parse(cls, text: str, path: Path = Path("testbed.yaml")) -> OnTestbed:
        """Read the text of a file; `path` is for messages. Raises ConfigError."""
        return cls(path, text, parse_testbed(text, str(path)))

    def use(self, experiment: ExperimentConfig) -> ExperimentConfig:
        """The experiment on this testbed. Raises ConfigError with a line for each thing that is missing."""
        joined = on_testbed(experiment, self.config)
        lines = [f"{self.path}: {problem}" for problem in problems(joined, self.config)]
        if lines:
            raise ConfigError(lines)
        return joined

    def record(self, experiment: ExperimentConfig) -> TestbedRecord:
        """The manifest's record; of the experiment that `use` has returned."""
        names = [*experiment.hosts, COLLECTOR]
        return TestbedRecord(
            name=self.config.name,
            switch=experiment.switch.address or "",
            ports={name: self.config.hosts[name].switch_port for name in names},
        )


@dataclass(frozen=True)
class TimeChoice:
    """The command line's choice of time and kernel; None leaves it to the experiment."""

    time: Literal["real", "virtual"] | None = None
    kernel: str | None = None
    memory_mb: int = MEMORY_MB


@contextmanager
def new_run(
    config: Path, runs: Path, choice: TimeChoice | None = None, testbed: OnTestbed | None = None
) -> Iterator[tuple[ExperimentConfig, Path]]:
    """Check an experiment file and create a run directory in `runs`/<name>, to which `latest` then points.

    The directory's lock is held until the end of the block, which makes the run and analyses it. An error or
    Ctrl-C that the block does not handle is recorded as the end of the run, if that had no other one.

    Raises ConfigError, KernelInputError, OSError, SandboxError, ToolMissingError.
    """
    with new_run_of(read_text(config), config, runs, choice, testbed) as made:
        yield made


@contextmanager
def new_run_of(
    text: str,
    config: Path,
    runs: Path,
    choice: TimeChoice | None = None,
    testbed: OnTestbed | None = None,
) -> Iterator[tuple[ExperimentConfig, Path]]:
    """As `new_run`, from text; `config` is for messages; paths are relative to its folder."""
    source = Source.parse(text, str(config))
    experiment = experiment_of(source.data, source)
    check_runnable(experiment, config, source, testbed=testbed is not None)
    choice = choice or TimeChoice()
    virtual_time: VirtualTime | None = None
    if testbed is not None:
        if choice.time is not None:
            experiment = experiment.model_copy(update={"time": choice.time})
        experiment = testbed.use(experiment)
    else:
        if choice.time == "virtual":
            check_virtual(experiment, config)
        virtual_time = virtual_time_of(experiment, choice)
        check_machine(experiment, config, source)
        check_place(runs)
    inputs = read_inputs(experiment, config)
    run_dir = make_run_dir(runs / experiment.name)
    # A directory without a manifest is no run, so nobody sees this one before it is held.
    with held(run_dir), end_recorded(run_dir):
        prepare(run_dir, experiment, text.encode(), inputs, virtual_time=virtual_time, testbed=testbed)
        point_latest_to(run_dir)
        yield experiment, run_dir


def prepare(
    run_dir: Path,
    experiment: ExperimentConfig,
    config: bytes,
    inputs: Inputs,
    *,
    campaign: CampaignRun | None = None,
    virtual_time: VirtualTime | None = None,
    testbed: OnTestbed | None = None,
    keep_raw: bool = True,
) -> None:
    """Write the experiment's text, the files that it names and the manifest into an empty run directory.

    On a `testbed`, the experiment is the one that its `use` has returned. Without `keep_raw`, the campaign
    deletes captures after their analysis.

    Without `virtual_time`, the experiment says in which time it runs. Raises KernelInputError.
    """
    write_whole(RunDirectory(run_dir).config, config)
    keep_inputs(run_dir, inputs)
    if testbed is None:
        virtual_time = virtual_time or virtual_time_of(experiment, TimeChoice())
    else:
        write_whole(RunDirectory(run_dir).testbed, testbed.text.encode())
    if virtual_time is None or campaign is not None:
        run_id = run_dir.name
    else:
        run_id = _virtual_run_id(config, inputs, virtual_time)
    record = None if testbed is None else testbed.record(experiment)
    if record is not None and not keep_raw:
        record = record.model_copy(update={"headers_only": True})
    ManifestFile.create(
        run_dir,
        run_id,
        name=experiment.name,
        target=experiment.switch.target,
        seed=experiment.seed,
        detectors=experiment.analysis.detectors,
        campaign=campaign,
        virtual_time=virtual_time,
        testbed=record,
    )


def virtual_time_of(experiment: ExperimentConfig, choice: TimeChoice) -> VirtualTime | None:
    """The kernel of a run in virtual time; None for real time. Raises KernelInputError for unknown names."""
    if (choice.time or experiment.time) == "real":
        return None
    store = KernelStore(kernels_folder())
    found = store.find(choice.kernel or experiment.kernel or DEBIAN_SERIES)
    return VirtualTime(kernel=found.record, memory_mb=choice.memory_mb, epoch_ns=EPOCH_NS)


def _virtual_run_id(config: bytes, inputs: Inputs, virtual_time: VirtualTime) -> str:
    """An id that repeats share: the telemetry and the result have it in them."""
    made_of = [
        hashlib.sha256(config).hexdigest(),
        sorted(inputs.items()),
        virtual_time.kernel.inputs_sha256,
        virtual_time.memory_mb,
    ]
    return f"virtual-{hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]}"
