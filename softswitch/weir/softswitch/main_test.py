# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from random import Random

import pytest
from google.protobuf import text_format

from weir.controlplane.shipped import pipeline_directory
from weir.softswitch import Record, read_pcap, write_pcap
from weir.softswitch.__main__ import main
from weir_tests.softswitch.pipeline import CELL, frame, write_request
from weir_tests.softswitch.traffic import poisson, take

EPOCH_NS = 1_700_000_000_000_000_123
P4 = pipeline_directory()
PIPELINE = ["--json", str(P4 / "weir.json"), "--p4info", str(P4 / "weir.p4info.txtpb")]


@pytest.fixture
def capture(tmp_path: Path) -> list[str]:
    """Arguments for 200 packets that arrive at port 1, entries that police them, reports out of port 3."""
    arrivals = take(poisson(Random(4), 250_000.0), 200)
    records = (Record(EPOCH_NS + at_ns, frame(length, at)) for at, (at_ns, length) in enumerate(arrivals))
    write_pcap(tmp_path / "in.pcap", records)
    entries = tmp_path / "entries.txtpb"
    entries.write_text(text_format.MessageToString(write_request()))
    through = ["--in", f"1={tmp_path / 'in.pcap'}", "--out", f"3={tmp_path / 'reports.pcap'}"]
    return [*PIPELINE, "--entries", str(entries), *through]


def test_captures_pass_the_pipeline_with_their_times(
    capture: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meter = tmp_path / "meter.txtpb"
    cell = f"index {{ index: {CELL} }} config {{ cir: 125000 cburst: 5000 pir: 125000 pburst: 5000 }}"
    meter.write_text(f"updates {{ type: MODIFY entity {{ meter_entry {{ meter_id: 337588403 {cell} }} }} }}")
    out, reports, stats = tmp_path / "out.pcap", tmp_path / "reports.pcap", tmp_path / "stats.json"
    arguments = [*capture, "--entries", str(meter), "--out", f"2={out}"]
    assert main([*arguments, "--port", "2=delay=5ms", "--stats", str(stats)]) == 0
    passed, dropped = list(read_pcap(out)), list(read_pcap(reports))
    assert len(passed) + len(dropped) == 200
    assert dropped
    arrived_ns = {record.frame: record.time_ns for record in read_pcap(tmp_path / "in.pcap")}
    assert all(record.time_ns == arrived_ns[record.frame] + 5_000_000 for record in passed)
    counted = json.loads(stats.read_text())
    assert counted["dataplane"]["received"] == 200
    assert counted["ports"]["2"]["tx_packets"] == len(passed)
    assert f"{len(passed)} frames left port 2 ({out})" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (["--in", "1"], "--in 1: valid: PORT=FILE.pcap"),
        (["--in", "1=a.pcap"], "port 1 is given twice"),
        (["--port", "2=rate=5"], "the unit is missing"),
        (["--entries", "{tmp}/in.pcap"], "valid: a p4.v1.WriteRequest in binary"),
        (["--json", "{tmp}/in.pcap"], "not a BMv2 JSON program"),
        (["--p4info", "{tmp}/nothing.txtpb"], "No such file"),
        (["--in", "9={tmp}/entries.txtpb"], "no pcap file"),
        (["--colour"], "No such option"),
    ],
)
def test_mistakes_are_named_on_one_line_without_a_traceback(
    capture: list[str], tmp_path: Path, change: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main([*capture, *(word.replace("{tmp}", str(tmp_path)) for word in change)])
    assert code in (1, 2)
    said = capsys.readouterr().err
    assert problem in said
    assert said.startswith("weir.softswitch: ")


def test_a_capture_out_of_order_is_refused_by_record(
    capture: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pcap(tmp_path / "in.pcap", [Record(5, frame(60, 0)), Record(3, frame(60, 1))])
    assert main(capture) == 2
    assert "record 2 is 2 ns older than the one before" in capsys.readouterr().err


def test_help_shows_a_whole_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "--in 1=client.pcap" in said
