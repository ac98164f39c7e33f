# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from weir.analysis.features import NAMES
from weir.controlplane.config import ConfigError, parse_experiment
from weir.runner.classifiers import classifier_of
from weir.runner.inputs import keep_inputs, read_inputs
from weir.runner.tuners import decide
from weir.topo.tcpdiag import TcpInfo
from weir_tests.analysis.rtt_classifier import rtt_classifier

EXPERIMENT = """\
name: tuned
hosts:
  a: {{delay: 5 ms, tuner: {{flow: one, classifier: near.json, values: {{{values}}}{more}}}}}
  b: {{delay: 5 ms}}
flows:
  - {{name: one, from: a, to: b, congestion_control: {cc}, duration: 2 s}}
  - {{name: two, from: b, to: a, duration: 2 s}}
"""
INFO = TcpInfo(
    connection=(b"", 1, b"", 2),
    state="ESTABLISHED",
    congestion_control="bbr",
    rtt_ns=12_000_000,
    min_rtt_ns=10_000_000,
    cwnd=20,
    ssthresh=None,
    pacing_rate_bps=None,
    delivery_rate_bps=0,
    bytes_sent=0,
    bytes_retrans=0,
    bytes_acked=0,
    delivered=0,
    lost=0,
    retrans_total=0,
    unacked=0,
    in_flight=10,
    segments_received=100,
    bbr_bandwidth_bps=10_000_000,
    bbr_min_rtt_ns=10_000_000,
    bbr_pacing_gain=1.0,
    bbr_cwnd_gain=2.0,
)


def text(values: str = "near: 1, far: 2", more: str = "", cc: str = "bbr") -> str:
    return EXPERIMENT.format(values=values, more=more, cc=cc)


def samples(rtts_ms: list[float], **changes: Any) -> list[tuple[int, TcpInfo]]:
    return [
        (
            tenth * 100_000_000,
            replace(INFO, rtt_ns=round(rtt * 1e6), segments_received=100 + 10 * tenth, **changes),
        )
        for tenth, rtt in enumerate(rtts_ms)
    ]


def test_a_decision_is_by_the_mean_of_the_samples_after_the_first() -> None:
    classifier = rtt_classifier(limit_ms=15)
    assert len(NAMES) == len(classifier.mean)
    near = decide(classifier, samples([500, 12, 17]))
    assert near is not None
    assert (near.predicted, near.samples) == ("near", 2)
    far = decide(classifier, samples([500, 12, 19]))
    assert far is not None
    assert far.predicted == "far"


def test_without_an_estimate_of_bbr_or_an_ack_nothing_is_decided() -> None:
    classifier = rtt_classifier(limit_ms=15)
    assert decide(classifier, []) is None
    assert decide(classifier, samples([12])) is None
    assert decide(classifier, samples([12, 12], bbr_bandwidth_bps=None)) is None
    assert decide(classifier, [(0, INFO), (100_000_000, INFO)]) is None


def test_a_run_uses_its_copy_of_the_classifier(tmp_path: Path) -> None:
    (tmp_path / "near.json").write_text(rtt_classifier(limit_ms=15).model_dump_json())
    experiment = parse_experiment(text(), "tuned.yaml")
    tuner = experiment.hosts["a"].tuner
    assert tuner is not None
    assert (tuner.every, tuner.latency, tuner.sysctl) == (10**9, 0, "net.ipv4.tcp_bbr_cwnd_gain")
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    keep_inputs(run_dir, read_inputs(experiment, tmp_path / "tuned.yaml"))
    (tmp_path / "near.json").unlink()
    assert classifier_of(tuner, run_dir) == rtt_classifier(limit_ms=15)
    # The config in the run directory finds the copy.
    assert [*read_inputs(experiment, run_dir / "config.yaml")] == ["classifiers/near.json"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"values": "near: 1, deep: 2"},
            "hosts.a.tuner.values: for near, deep; valid: the classes of .*: near, far",
        ),
        ({"values": "near: 1"}, "hosts.a.tuner.values"),
        ({"more": ", every: 100 ms"}, "every: 100 ms has too few samples; valid: at least 200 ms"),
        ({"more": ", latency: 1 s"}, "latency: 1 s is not less than the time between decisions"),
        (
            {"cc": "cubic"},
            "congestion_control: cubic, of whose state the tuner of a knows nothing; valid: bbr",
        ),
    ],
    ids=str,
)
def test_a_tuner_that_cannot_work_is_refused_by_its_key(
    changes: dict[str, str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "near.json").write_text(rtt_classifier(limit_ms=15).model_dump_json())
    with pytest.raises(ConfigError, match=message):
        read_inputs(parse_experiment(text(**changes), "tuned.yaml"), tmp_path / "tuned.yaml")


def test_a_flow_of_another_host_is_no_flow_of_the_tuner() -> None:
    with pytest.raises(ConfigError, match=r"hosts.a.tuner.flow: no TCP flow from a 'two'; valid: one"):
        parse_experiment(text().replace("flow: one,", "flow: two,"), "tuned.yaml")


def test_the_error_of_a_file_that_is_no_classifier_names_it(tmp_path: Path) -> None:
    experiment = parse_experiment(text(), "tuned.yaml")
    with pytest.raises(
        ConfigError, match=r"hosts.a.tuner.classifier: .*near.json: No such file .*; valid: a file of"
    ):
        read_inputs(experiment, tmp_path / "tuned.yaml")
    (tmp_path / "near.json").write_text(json.dumps({"layers": []}))
    with pytest.raises(ConfigError, match=r"near.json: .*; valid: a file of `weir classifier train`"):
        read_inputs(experiment, tmp_path / "tuned.yaml")
