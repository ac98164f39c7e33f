# SPDX-License-Identifier: Apache-2.0
"""Creates a run directory with experiment, replay files and manifest, before the run starts."""

from __future__ import annotations

from pathlib import Path

from weir.controlplane.config import ExperimentConfig, parse_experiment, read_text
from weir.rundir.directory import RunDirectory, make_run_dir, point_latest_to
from weir.rundir.manifest import CampaignRun
from weir.rundir.manifest_file import ManifestFile
from weir.rundir.whole_files import write_whole
from weir.runner.checks import check_runnable
from weir.runner.replays import Replays, keep_replays, read_replays


def new_run(config: Path, runs: Path) -> tuple[ExperimentConfig, Path]:
    """Check an experiment file and create a run directory in `runs`/<name>, to which `latest` then points.

    Raises ConfigError, OSError.
    """
    return new_run_of(read_text(config), config, runs)


def new_run_of(text: str, config: Path, runs: Path) -> tuple[ExperimentConfig, Path]:
    """As `new_run`, from text; `config` is for messages, and its folder is that of the replay files."""
    experiment = parse_experiment(text, str(config))
    check_runnable(experiment, config)
    replays = read_replays(experiment, config)
    run_dir = make_run_dir(runs / experiment.name)
    prepare(run_dir, experiment, text.encode(), replays)
    point_latest_to(run_dir)
    return experiment, run_dir


def prepare(
    run_dir: Path,
    experiment: ExperimentConfig,
    config: bytes,
    replays: Replays,
    *,
    campaign: CampaignRun | None = None,
) -> None:
    """Write the experiment's text, its replay files and the manifest into an empty run directory."""
    write_whole(RunDirectory(run_dir).config, config)
    keep_replays(run_dir, replays)
    ManifestFile.create(
        run_dir,
        run_dir.name,
        name=experiment.name,
        target=experiment.switch.target,
        seed=experiment.seed,
        detectors=experiment.analysis.detectors,
        campaign=campaign,
    )
