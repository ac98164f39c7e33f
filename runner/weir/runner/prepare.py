# SPDX-License-Identifier: Apache-2.0
"""Creates a run directory with experiment, replay files and manifest, before the run starts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weir.controlplane.config import ExperimentConfig, Source, experiment_of, read_text
from weir.kernel.debian import DEBIAN_SERIES
from weir.kernel.store import KernelStore, kernels_folder
from weir.rundir.directory import RunDirectory, make_run_dir, point_latest_to
from weir.rundir.manifest import CampaignRun, VirtualTime
from weir.rundir.manifest_file import ManifestFile
from weir.rundir.whole_files import write_whole
from weir.runner.checks import check_machine, check_runnable, check_virtual
from weir.runner.replays import Replays, keep_replays, read_replays

MEMORY_MB = 1024
"""Memory of a guest, most of which is its cache of files."""
EPOCH_NS = 946_684_800_000_000_000
"""The wall clock at the start of a run in virtual time, 2000-01-01 00:00 UTC, so that repeats have the same
time stamps, which cannot be mistaken for those of real time."""


@dataclass(frozen=True)
class TimeChoice:
    """The command line's choice of time and kernel; None leaves it to the experiment."""

    time: Literal["real", "virtual"] | None = None
    kernel: str | None = None
    memory_mb: int = MEMORY_MB


def new_run(config: Path, runs: Path, choice: TimeChoice | None = None) -> tuple[ExperimentConfig, Path]:
    """Check an experiment file and create a run directory in `runs`/<name>, to which `latest` then points.

    Raises ConfigError, KernelInputError, OSError, SandboxError, ToolMissingError.
    """
    return new_run_of(read_text(config), config, runs, choice)


def new_run_of(
    text: str, config: Path, runs: Path, choice: TimeChoice | None = None
) -> tuple[ExperimentConfig, Path]:
    """As `new_run`, from text; `config` is for messages, and its folder is that of the replay files."""
    source = Source.parse(text, str(config))
    experiment = experiment_of(source.data, source)
    check_runnable(experiment, config, source)
    choice = choice or TimeChoice()
    if choice.time == "virtual":
        check_virtual(experiment, config)
    virtual_time = virtual_time_of(experiment, choice)
    check_machine(experiment, config, source)
    replays = read_replays(experiment, config)
    run_dir = make_run_dir(runs / experiment.name)
    prepare(run_dir, experiment, text.encode(), replays, virtual_time=virtual_time)
    point_latest_to(run_dir)
    return experiment, run_dir


def prepare(
    run_dir: Path,
    experiment: ExperimentConfig,
    config: bytes,
    replays: Replays,
    *,
    campaign: CampaignRun | None = None,
    virtual_time: VirtualTime | None = None,
) -> None:
    """Write the experiment's text, its replay files and the manifest into an empty run directory.

    Without `virtual_time`, the experiment says in which time it runs. Raises KernelInputError.
    """
    write_whole(RunDirectory(run_dir).config, config)
    keep_replays(run_dir, replays)
    virtual_time = virtual_time or virtual_time_of(experiment, TimeChoice())
    if virtual_time is None or campaign is not None:
        run_id = run_dir.name
    else:
        run_id = _virtual_run_id(config, replays, virtual_time)
    ManifestFile.create(
        run_dir,
        run_id,
        name=experiment.name,
        target=experiment.switch.target,
        seed=experiment.seed,
        detectors=experiment.analysis.detectors,
        campaign=campaign,
        virtual_time=virtual_time,
    )


def virtual_time_of(experiment: ExperimentConfig, choice: TimeChoice) -> VirtualTime | None:
    """The kernel of a run in virtual time; None for real time. Raises KernelInputError for unknown names."""
    if (choice.time or experiment.time) == "real":
        return None
    store = KernelStore(kernels_folder())
    found = store.find(choice.kernel or experiment.kernel or DEBIAN_SERIES)
    return VirtualTime(kernel=found.record, memory_mb=choice.memory_mb, epoch_ns=EPOCH_NS)


def _virtual_run_id(config: bytes, replays: Replays, virtual_time: VirtualTime) -> str:
    """An id that repeats share: the telemetry and the result have it in them."""
    inputs = [
        hashlib.sha256(config).hexdigest(),
        sorted(replays.items()),
        virtual_time.kernel.inputs_sha256,
        virtual_time.memory_mb,
    ]
    return f"virtual-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}"
