# SPDX-License-Identifier: Apache-2.0
"""The classifiers that the tuners of an experiment's hosts use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weir.analysis.classifier.network import Classifier, ClassifierError, parse_classifier, read_classifier
from weir.controlplane.config import ConfigError, ExperimentConfig
from weir.controlplane.config.model import TunerConfig
from weir.rundir.directory import CLASSIFIERS, RunDirectory, named_file


def classifiers_of(experiment: ExperimentConfig, config: Path) -> Iterator[tuple[str, Path, str]]:
    """The key of each tuner's classifier, its path and its text.

    Raises ConfigError if a file is no classifier, or if its classes are not those of the tuner's values.
    """
    for name, host in experiment.hosts.items():
        tuner = host.tuner
        if tuner is None:
            continue
        where = f"{config}: hosts.{name}.tuner"
        path = named_file(config, tuner.classifier, CLASSIFIERS)
        try:
            text = path.read_text(encoding="utf-8")
            classes = parse_classifier(text, str(path)).classes
        except ClassifierError as error:
            raise ConfigError([f"{where}.classifier: {error}"]) from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            valid = "valid: a file of `weir classifier train`"
            raise ConfigError([f"{where}.classifier: {path}: {reason}; {valid}"]) from error
        if set(classes) != set(tuner.values):
            given, valid = ", ".join(tuner.values), ", ".join(classes)
            raise ConfigError([f"{where}.values: for {given}; valid: the classes of {path}: {valid}"])
        yield f"{where}.classifier", path, text


def classifier_of(tuner: TunerConfig, run_dir: Path) -> Classifier:
    """The run's copy of a tuner's classifier. Raises ClassifierError."""
    return read_classifier(RunDirectory(run_dir).classifiers / Path(tuner.classifier).name)
