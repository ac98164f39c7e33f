# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier with scikit-learn, and counts how often one is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import GroupKFold
from sklearn.neural_network import MLPClassifier

from weir.analysis.classifier.examples import Examples
from weir.analysis.classifier.network import Classifier, InputKind, Layer, Training, inputs_of
from weir.analysis.tables import Ints

HIDDEN = (256, 256, 256, 256)
"""Outputs of the hidden layers; with the last one, five linear layers (section 2.2)."""
FOLDS = 10
MAX_EPOCHS, PATIENCE, BATCH = 300, 25, 32
"""Training ends after so many epochs without progress on a tenth of the windows, which is set aside.

Batches are small, so that few windows have many steps to an epoch too.
"""
_DIGITS = 7


@dataclass(frozen=True)
class Confusion:
    """How many windows of each class (rows) were named which class (columns)."""

    classes: tuple[str, ...]
    counts: Ints
    """Classes × classes."""

    @property
    def accuracy(self) -> float:
        """Share of the windows that were named right; NaN without any."""
        total = int(self.counts.sum())
        return float(np.trace(self.counts)) / total if total else float("nan")

    def right(self, label: str) -> tuple[int, int]:
        """Windows of a class that were named right, and all of that class."""
        at = self.classes.index(label)
        return int(self.counts[at, at]), int(self.counts[at].sum())


def train(
    examples: Examples,
    *,
    campaigns: Sequence[str],
    validated: Confusion | None = None,
    inputs: InputKind = "absolute",
    hidden: Sequence[int] = HIDDEN,
    seed: int = 1,
) -> Classifier:
    """A network trained on all examples, by Adam on the cross entropy; the same for the same seed."""
    values = inputs_of(examples.windows, inputs)
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    deviation[deviation == 0] = 1.0
    network = MLPClassifier(
        hidden_layer_sizes=tuple(hidden),
        activation="tanh",
        max_iter=MAX_EPOCHS,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        batch_size=min(BATCH, len(examples.labels)),
        random_state=seed,
    )
    network.fit((values - mean) / deviation, examples.labels)
    present = [examples.classes[at] for at in network.classes_]
    coefs, intercepts = network.coefs_, network.intercepts_
    if len(present) == 2:  # scikit-learn has one output for two classes
        coefs = [*coefs[:-1], np.hstack((-coefs[-1] / 2, coefs[-1] / 2))]
        intercepts = [*intercepts[:-1], np.concatenate((-intercepts[-1] / 2, intercepts[-1] / 2))]
    return Classifier(
        classes=tuple(present),
        inputs=inputs,
        window_s=examples.window_s,
        mean=_short(mean),
        deviation=_short(deviation),
        layers=tuple(
            Layer(weights=tuple(_short(row) for row in weights), biases=_short(biases))
            for weights, biases in zip(coefs, intercepts, strict=True)
        ),
        training=Training(
            campaigns=tuple(campaigns),
            runs=len(np.unique(examples.runs)),
            windows=len(examples.labels),
            seed=seed,
            validated={} if validated is None else {label: validated.right(label) for label in present},
        ),
    )


def _short(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(float(f"{value:.{_DIGITS}g}") for value in values)


def judge(classifier: Classifier, examples: Examples) -> Confusion:
    """How often a classifier is right on examples; their classes must be the classifier's, in its order."""
    count = len(classifier.classes)
    counts = np.zeros((count, count), dtype=np.int64)
    if len(examples.labels):
        named = np.argmax(classifier.outputs(examples.windows), axis=1)
        np.add.at(counts, (examples.labels, named), 1)
    return Confusion(classifier.classes, counts)


def cross_validated(
    examples: Examples,
    *,
    inputs: InputKind = "absolute",
    hidden: Sequence[int] = HIDDEN,
    seed: int = 1,
    folds: int = FOLDS,
) -> Confusion:
    """The confusion on runs left out: each of so many parts is judged by a network trained on the others."""
    counts = np.zeros((len(examples.classes),) * 2, dtype=np.int64)
    splitter = GroupKFold(n_splits=min(folds, len(np.unique(examples.runs))), shuffle=True, random_state=seed)
    for fitted, left in splitter.split(examples.windows, examples.labels, examples.runs):
        part = Examples(
            examples.classes,
            examples.windows[fitted],
            examples.labels[fitted],
            examples.runs[fitted],
            examples.window_s,
        )
        classifier = train(part, campaigns=(), inputs=inputs, hidden=hidden, seed=seed)
        named = np.argmax(classifier.outputs(examples.windows[left]), axis=1)
        own = np.array([examples.classes.index(label) for label in classifier.classes])
        np.add.at(counts, (examples.labels[left], own[named]), 1)
    return Confusion(examples.classes, counts)
