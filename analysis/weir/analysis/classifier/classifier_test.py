# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neural_network import MLPClassifier

from weir.analysis.classifier.examples import Examples, examples_of
from weir.analysis.classifier.network import (
    Classifier,
    ClassifierError,
    inputs_of,
    parse_classifier,
    read_classifier,
    window_means,
)
from weir.analysis.classifier.training import BATCH, MAX_EPOCHS, PATIENCE, cross_validated, judge, train
from weir.analysis.features import NAMES, SCHEMA
from weir.rundir.directory import RunDirectory

TRAINING = {"campaigns": ["made-up"], "runs": 1, "windows": 1, "seed": 1}
SMALL: dict[str, Any] = {
    "weir_classifier": 1,
    "classes": ["shallow", "deep"],
    "inputs": "absolute",
    "window_s": 1.0,
    "mean": [0, 0, 10, 0, 0],
    "deviation": [1, 1, 2, 1, 1],
    "layers": [
        {"weights": [[0], [0], [1], [0], [0]], "biases": [0.5]},
        {"weights": [[-1, 1]], "biases": [0, 0.25]},
    ],
    "training": TRAINING,
}
"""Looks at the packets in flight only."""


def examples(classes: int, runs: int = 6, windows: int = 100, spread: float = 1.0) -> Examples:
    """Classes whose RTT differs by 10 ms, and whose other features do not."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(classes), runs * windows)
    features = rng.normal(1000, 10, (len(labels), len(NAMES)))
    features[:, NAMES.index("tcp_rtt_us")] = (
        40_000 + 10_000 * labels + spread * rng.normal(0, 1000, len(labels))
    )
    return Examples(
        tuple(f"{n} BDP" for n in range(classes)), features, labels, np.arange(len(labels)) // windows, 1.0
    )


def test_outputs_are_linear_layers_with_tanh_between_them_on_z_scores() -> None:
    classifier = Classifier.model_validate(SMALL)
    windows = np.array([[7.0, 8, 12, 9, 10], [7, 8, 6, 9, 10]])
    hidden = np.tanh([(12 - 10) / 2 + 0.5, (6 - 10) / 2 + 0.5])
    assert classifier.outputs(windows) == pytest.approx(np.column_stack((-hidden, hidden + 0.25)))
    assert classifier.classify(windows) == ["deep", "shallow"]


def test_ratios_do_not_depend_on_rate_and_rtt() -> None:
    # Ten packets of 1448 B in flight; 25 ms minimum RTT, 30 ms RTT; an ACK for two packets.
    rate_bps = 1448 * 8 / 2.5e-3  # a packet each 2.5 ms
    one = np.array([[5_000.0, 25_000, 10, rate_bps, 30_000]])
    found = inputs_of(one, "relative")
    assert found == pytest.approx(np.array([[30 / 25, 10 / 10, 2.0, 10 / 12]]))
    faster = one * [0.25, 2, 8, 4, 2]
    assert inputs_of(faster, "relative") == pytest.approx(found)
    assert inputs_of(one, "absolute") is one


def test_windows_are_means_over_equal_times_from_the_first_sample() -> None:
    time_ns = np.array([100, 600, 1099, 1100, 3200], dtype=np.int64) * 1_000_000
    values = np.array([[1.0], [2], [6], [10], [7]])
    assert window_means(time_ns, values, 1.0).tolist() == [[3.0], [10.0], [7.0]]
    assert window_means(time_ns[:0], values[:0], 1.0).shape == (0, 1)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_network_says_what_scikit_learns_says(classes: int) -> None:
    its = examples(classes)
    ours = train(its, campaigns=["made-up"], hidden=(8, 8), seed=5)
    z = (its.windows - its.windows.mean(axis=0)) / its.windows.std(axis=0)
    theirs = MLPClassifier(
        hidden_layer_sizes=(8, 8),
        activation="tanh",
        max_iter=MAX_EPOCHS,
        early_stopping=True,
        n_iter_no_change=PATIENCE,
        batch_size=BATCH,
        random_state=5,
    ).fit(z, its.labels)
    assert ours.classify(its.windows) == [its.classes[at] for at in theirs.predict(z)]
    outputs = np.exp(ours.outputs(its.windows))
    shares = outputs / outputs.sum(axis=1, keepdims=True)
    assert shares == pytest.approx(theirs.predict_proba(z), abs=1e-4)  # weights have seven digits
    assert ours.training.runs == 6 * classes
    assert train(its, campaigns=["made-up"], hidden=(8, 8), seed=5) == ours


def test_classes_that_differ_are_told_and_classes_that_do_not_are_not() -> None:
    distinct = cross_validated(examples(3), hidden=(16,), folds=3)
    print(f"distinct classes: {distinct.accuracy}")
    assert distinct.accuracy > 0.95
    assert distinct.counts.sum() == 3 * 6 * 100
    its = examples(3)
    alike = Examples(its.classes, its.windows[:, [0, 0, 2, 3, 0]], its.labels, its.runs, 1.0)
    guessed = cross_validated(alike, hidden=(16,), folds=3)
    # A right guess of three has probability 1/3; its standard deviation over 1800 windows is 0.011.
    print(f"classes that are alike: {guessed.accuracy}")
    assert guessed.accuracy < 1 / 3 + 4 * 0.011
    counted = judge(train(its, campaigns=[], hidden=(16,)), its)
    assert counted.right("1 BDP")[1] == 600
    assert counted.counts.sum(axis=1).tolist() == [600] * 3


def test_examples_are_the_windows_of_each_flow_of_each_run(tmp_path: Path) -> None:
    def run(name: str, flows: dict[str, float]) -> Path:
        rows = [
            {"flow": flow, "time_ns": tenth * 100_000_000, **dict.fromkeys(NAMES, value)}
            | {"packets_in_flight": 1}
            for flow, value in flows.items()
            for tenth in range(20)
        ]
        (tmp_path / name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), RunDirectory(tmp_path / name).features)
        return tmp_path / name

    runs = [
        (run("a", {"one": 3.0}), "x"),
        (run("b", {"one": 4.0, "two": 5.0}), "y"),
        (tmp_path / "none", "y"),
    ]
    found = examples_of(runs, 1.0)
    assert found.classes == ("x", "y")
    assert found.windows[:, 0].tolist() == [3, 3, 4, 4, 5, 5]
    assert (found.labels.tolist(), found.runs.tolist()) == ([0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1])
    assert len(examples_of(runs, 1.0, ("y", "z")).labels) == 4


def test_a_file_is_read_as_it_was_written_and_a_malformed_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(Classifier.model_validate(SMALL).model_dump_json())
    assert read_classifier(path) == Classifier.model_validate(SMALL)
    for change, message in (
        ({"mean": [0]}, "absolute inputs need 5 means"),
        ({"inputs": "relative"}, "relative inputs need 4 means"),
        ({"deviation": [1, 1, 0, 1, 1]}, "positive deviations"),
        ({"classes": ["a", "b", "c"]}, "the last layer has 2 outputs for 3 classes"),
        ({"layers": [SMALL["layers"][1]]}, "layer 0 needs 5 rows"),
        ({"weir_classifier": 2}, "weir_classifier"),
        ({"extra": 1}, "extra"),
    ):
        path.write_text(json.dumps(SMALL | change))
        with pytest.raises(ClassifierError, match=f"{path}: .*{message}"):
            read_classifier(path)
    path.write_text("hello")
    with pytest.raises(ClassifierError, match=r"Invalid JSON: .*; valid: a file of `weir classifier train`"):
        read_classifier(path)
    path.unlink()
    with pytest.raises(ClassifierError, match="No such file"):
        read_classifier(path)


@settings(max_examples=200, deadline=None)
@given(
    key=st.sampled_from([*SMALL]),
    value=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["weights", "biases"]), inner)
        ),
        max_leaves=8,
    ),
)
def test_any_file_is_a_classifier_or_a_named_error(key: str, value: Any) -> None:
    text = json.dumps(SMALL | {key: value})
    with contextlib.suppress(ClassifierError):
        assert len(parse_classifier(text, "c.json").classify(np.ones((2, len(NAMES))))) == 2
