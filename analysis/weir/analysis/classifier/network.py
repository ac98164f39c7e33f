# SPDX-License-Identifier: Apache-2.0
"""The classifier's file, and the class of a window of features.

A network of linear layers with tanh between them, on z-scores of the features (I. U. Akgun et al.,
"Predicting Network Buffer Capacity for BBR Fairness", section 2.2). Runs load it, so it imports no
scikit-learn, which takes a second to load.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from weir.analysis.features import NAMES
from weir.analysis.tables import Floats, Ints

InputKind = Literal["absolute", "relative"]
_NS = 1_000_000_000
_SEGMENT_BITS = 1448 * 8
_ACK, _MIN_RTT, _IN_FLIGHT, _BANDWIDTH, _RTT = (
    NAMES.index(name)
    for name in (
        *("ack_interval_us", "bbr_min_rtt_us", "packets_in_flight", "bbr_bandwidth_bps"),
        "tcp_rtt_us",
    )
)


class ClassifierError(Exception):
    """A file is no classifier; the text has the file and why."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Layer(_Model):
    """A linear layer."""

    weights: tuple[tuple[float, ...], ...]
    """A row for each of its inputs."""
    biases: tuple[float, ...] = Field(min_length=1)
    """One for each of its outputs."""


class Training(_Model):
    """The runs that a classifier was trained on, and its validation."""

    campaigns: tuple[str, ...]
    """Names of the campaigns."""
    runs: int
    windows: int
    seed: int
    validated: dict[str, tuple[int, int]] = {}
    """By class: windows named right, and all, in runs that the network of their part was not trained on."""


class Classifier(_Model):
    """A network that says which class a window of features is of."""

    weir_classifier: Literal[1] = 1
    """Version of the format."""
    classes: tuple[str, ...] = Field(min_length=2)
    """Labels of the classes, in the order of the last layer's outputs."""
    inputs: InputKind
    """absolute: the five features. relative: their ratios, which have no unit (`inputs_of`)."""
    window_s: float = Field(gt=0, le=3600)
    """Features are means over so long."""
    mean: tuple[float, ...]
    """Of the training's inputs; with `deviation` for their z-scores."""
    deviation: tuple[float, ...]
    layers: tuple[Layer, ...] = Field(min_length=1)
    training: Training

    @model_validator(mode="after")
    def _fits(self) -> Self:
        width = len(inputs_of(np.ones((1, len(NAMES))), self.inputs)[0])
        if len(self.mean) != width or len(self.deviation) != width or min(self.deviation, default=0) <= 0:
            raise ValueError(f"{self.inputs} inputs need {width} means and {width} positive deviations")
        for number, layer in enumerate(self.layers):
            if len(layer.weights) != width or any(len(row) != len(layer.biases) for row in layer.weights):
                raise ValueError(f"layer {number} needs {width} rows of {len(layer.biases)} weights")
            width = len(layer.biases)
        if width != len(self.classes):
            raise ValueError(f"the last layer has {width} outputs for {len(self.classes)} classes")
        return self

    def outputs(self, windows: Floats) -> Floats:
        """Outputs (n × classes), larger for likelier classes, for windows (n × 5, as `NAMES`)."""
        values = (inputs_of(windows, self.inputs) - np.array(self.mean)) / np.array(self.deviation)
        for number, (weights, biases) in enumerate(self._arrays):
            values = (np.tanh(values) if number else values) @ weights + biases
        return np.asarray(values, dtype=np.float64)

    @cached_property
    def _arrays(self) -> tuple[tuple[Floats, Floats], ...]:
        return tuple((np.array(layer.weights), np.array(layer.biases)) for layer in self.layers)

    def classify(self, windows: Floats) -> list[str]:
        """The class of each of the windows (n × 5)."""
        return [self.classes[at] for at in np.argmax(self.outputs(windows), axis=1)]


def inputs_of(windows: Floats, inputs: InputKind) -> Floats:
    """The network's inputs for windows (n × 5): the features, or their ratios (n × 4).

    Ratios: TCP's RTT by BBR's minimum RTT; packets in flight by BBR's BDP; packets that an ACK stands for at
    BBR's bandwidth; packets in flight by those of one RTT at BBR's bandwidth.
    """
    if inputs == "absolute":
        return windows
    ack, min_rtt, in_flight, bandwidth, rtt = (
        windows[:, at] for at in (_ACK, _MIN_RTT, _IN_FLIGHT, _BANDWIDTH, _RTT)
    )
    packets_per_us = np.maximum(bandwidth, 1.0) / _SEGMENT_BITS / 1e6
    shortest, usual = np.maximum(min_rtt, 1.0), np.maximum(rtt, 1.0)
    return np.column_stack(
        (
            rtt / shortest,
            in_flight / (packets_per_us * shortest),
            ack * packets_per_us,
            in_flight / (packets_per_us * usual),
        )
    )


def window_means(time_ns: Ints, values: Floats, window_s: float) -> Floats:
    """Means (m × k) of values (n × k) over each window of time that has any, in order; times ascend."""
    if not len(time_ns):
        return np.empty((0, values.shape[1]))
    number = (time_ns - time_ns[0]) // round(window_s * _NS)
    firsts = np.flatnonzero(np.diff(number, prepend=-1))
    counts = np.diff(np.append(firsts, len(number)))
    return np.asarray(np.add.reduceat(values, firsts) / counts[:, None], dtype=np.float64)


def parse_classifier(text: str, name: str) -> Classifier:
    """The classifier in the text of a file; raises ClassifierError that begins with its name."""
    try:
        return Classifier.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        wrong = f"{where}{': ' if where else ''}{first['msg']}"
        raise ClassifierError(f"{name}: {wrong}; valid: a file of `weir classifier train`") from error


def read_classifier(path: Path) -> Classifier:
    """The classifier in a file; raises ClassifierError."""
    try:
        return parse_classifier(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ClassifierError(f"{path}: {reason}") from error
