# SPDX-License-Identifier: Apache-2.0
"""The files that an experiment names: read from its folder, copied into the run, used from the copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from weir.controlplane.config import ConfigError, ExperimentConfig
from weir.rundir.directory import RunDirectory
from weir.rundir.whole_files import write_whole
from weir.runner.classifiers import classifiers_of
from weir.runner.replays import replays_of

Inputs = Mapping[str, str]
"""Path in a run directory, `replays/NAME` or `classifiers/NAME` → text of the file."""


def read_inputs(experiment: ExperimentConfig, config: Path) -> Inputs:
    """Read the files that an experiment names, relative to the folder of its file.

    Raises ConfigError if one cannot be read, is malformed or does not suit the key that names it, or if two
    of a kind have the same file name.
    """
    files = RunDirectory(config.parent)
    return {
        **_named(replays_of(experiment, config), files.replays),
        **_named(classifiers_of(experiment, config), files.classifiers),
    }


def _named(found: Iterable[tuple[str, Path, str]], copies: Path) -> Inputs:
    """The files found, given as the key that names each, its path and its text."""
    texts: dict[str, str] = {}
    paths: dict[str, Path] = {}
    for where, path, text in found:
        if paths.setdefault(path.name, path) != path:
            other = paths[path.name]
            raise ConfigError([f"{where}: {path} has the same name as {other}; valid: another name"])
        texts[f"{copies.name}/{path.name}"] = text
    return texts


def keep_inputs(run_dir: Path, inputs: Inputs) -> None:
    """Write copies of the files into a run directory."""
    for name, text in inputs.items():
        path = run_dir / name
        path.parent.mkdir(exist_ok=True)
        write_whole(path, text.encode())
