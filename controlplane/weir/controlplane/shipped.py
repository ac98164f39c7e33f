# SPDX-License-Identifier: Apache-2.0
"""Finds the files that weir ships (compiled pipeline, experiments), in a checkout and when installed."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve()


def pipeline_directory() -> Path:
    """The folder of the compiled pipeline: p4src/build in a checkout, inside the package when installed."""
    return _directory("p4", "p4src/build")


def experiments_directory() -> Path:
    """The folder of the shipped experiments: experiments in a checkout, inside the package when installed."""
    return _directory("experiments", "experiments")


def experiment_names() -> list[str]:
    """The names of the shipped experiments and campaigns, sorted: `demo` for demo.yaml."""
    return sorted(path.stem for path in experiments_directory().glob("*.yaml"))


def find_experiment(given: Path) -> Path:
    """The experiment's file: `given`, or the shipped experiment of this name if there is no such file.

    A bare name without a suffix is a shipped experiment; any other path is returned as it is, so that the
    reader reports a missing file. Raises ConfigError for a bare name that is neither.
    """
    if given.suffix or given.name != str(given) or (given.exists() and not given.is_dir()):
        return given
    names = experiment_names()
    if given.name not in names:
        from weir.controlplane.config import ConfigError, nearest, one_of

        hint = nearest(given.name, names)
        raise ConfigError([f"{given}: no such file or shipped experiment{hint}; {one_of(names)}"])
    return experiments_directory() / f"{given}.yaml"


def _directory(installed: str, checkout: str) -> Path:
    inside = _HERE.parent / "shipped_files" / installed
    return inside if inside.is_dir() else _HERE.parents[3] / checkout
