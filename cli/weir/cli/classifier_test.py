# SPDX-License-Identifier: Apache-2.0
"""`weir classifier`: trained on the runs of a campaign, and judged by others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.analysis.classifier.network import read_classifier
from weir.analysis.features import NAMES, SCHEMA
from weir.campaign.load import load_campaign
from weir.cli.errors import EXIT_BAD_INPUT
from weir.cli.main import run_cli
from weir.rundir.campaign_folder import CAMPAIGN_FILE
from weir.rundir.directory import RunDirectory
from weir_tests.campaign.made_up_runs import made_up, simulated

CAMPAIGN = """\
name: sizes
matrix: {buffer: [10 kB, 100 kB, 1 MB], gain: [1, 2]}
repeats: 5
hosts:
  a: {delay: 5 ms, sysctl: {net.ipv4.tcp_ecn: $gain}}
  b: {delay: 5 ms, rate: 10 Mbit/s, burst: 2 kB, queue: $buffer}
flows:
  - {name: bbr, from: a, to: b, congestion_control: bbr, duration: 20 s, measured: true}
  - {name: cubic, from: a, to: b, duration: 20 s, measured: true}
"""
RTT_MS = {"10 kB": 20, "100 kB": 30, "1 MB": 40}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign's folder: the RTT is that of the buffer with gain 1, and 100 ms more with gain 2."""
    base = tmp_path_factory.mktemp("classes")
    (base / "sizes.yaml").write_text(CAMPAIGN)
    campaign = load_campaign(base / "sizes.yaml")
    path = base / "runs" / "sizes"
    path.mkdir(parents=True)
    (path / CAMPAIGN_FILE).write_text(CAMPAIGN)
    (base / "shape").mkdir()
    rng = np.random.default_rng(7)
    for outcome in made_up(campaign, path, simulated(base / "shape")):
        rtt_us = 1e3 * (RTT_MS[outcome.cell["buffer"]] + 100 * (outcome.cell["gain"] == "2"))
        samples = [
            {"flow": "main/bbr", "time_ns": tenth * 10**8, **dict.fromkeys(NAMES, 1000.0)}
            | {"packets_in_flight": 10, "tcp_rtt_us": rtt_us + rng.normal(0, 500)}
            for tenth in range(600)
        ]
        pq.write_table(pa.Table.from_pylist(samples, schema=SCHEMA), RunDirectory(outcome.path).features)
    return path


def test_training_writes_a_file_and_shows_the_accuracy_on_runs_left_out(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.json"
    options = ["--only", "gain=1", "--hidden", "16", "--folds", "5"]
    assert run_cli(["classifier", "train", str(folder), "-o", str(file), *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    print(found)
    assert found["accuracy"] > 0.95
    assert [one["windows"] for one in found["classes"].values()] == [5 * 60] * 3
    classifier = read_classifier(file)
    assert classifier.classes == ("10 kB", "100 kB", "1 MB")
    assert (classifier.training.campaigns, classifier.training.runs) == (("sizes",), 15)
    assert [all_of_it for _, all_of_it in classifier.training.validated.values()] == [5 * 60] * 3
    assert run_cli(["classifier", "judge", str(file), str(folder), "--only", "gain=1"]) == 0
    shown = capsys.readouterr().out
    assert "c.json on 900 windows" in shown
    assert all(label in shown for label in RTT_MS)
    # With gain 2 each RTT is that of no class seen in training, most of all like the largest.
    assert run_cli(["classifier", "judge", str(file), str(folder), "--only", "gain=2", "--json"]) == 0
    other = json.loads(capsys.readouterr().out)
    assert sum(row[2] for row in other["confusion"]) > 0.9 * 900


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "FOLDER", "-o", "x", "--axis", "rate"], "no axis 'rate'; valid: buffer, gain"),
        (["train", "FOLDER", "-o", "x", "--only", "gain=3"], "--only gain=3: no gain '3'"),
        (["train", "FOLDER", "-o", "x", "--only", "buffer=1 MB"], "--axis buffer: runs of 1 class; valid: "),
        (
            ["train", "FOLDER", "-o", "x", "--window", "60"],
            "10 windows of 10 runs of 10 kB; valid: at least 20",
        ),
        (["train", "FOLDER", "-o", "x", "--hidden", "8,x"], "--hidden 8,x; valid: widths from 1 to 4096"),
        (["train", "nowhere", "-o", "x"], "nowhere: no campaign; valid: a folder that `weir campaign` made"),
        (["judge", "nothing.json", "FOLDER"], "nothing.json: No such file or directory"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_mistakes_are_one_line_each(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(folder) if argument == "FOLDER" else argument for argument in arguments]
    assert run_cli(["classifier", *arguments]) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("weir: ")
    assert message in line
