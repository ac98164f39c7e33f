# SPDX-License-Identifier: Apache-2.0
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from weir.analysis.losses import CaptureLosses, capture_losses
from weir.cli import losses
from weir.cli.losses import by_size, losses_command, losses_table
from weir.cli.main import run_cli

FLOW = {
    "src": "10.0.0.2",
    "dst": "10.0.0.1",
    "src_port": 20000,
    "dst_port": 5201,
    "protocol": 6,
    "packets": 100,
    "bytes": 150_000,
    "first_ns": 1,
    "last_ns": 2,
    "min_rtt_ns": 20_147_000,
    "retransmissions": 3,
    "spurious": 1,
}


def capture(*payloads: int) -> CaptureLosses:
    """A capture with a flow per payload size; the first lost two packets."""
    rows = [
        {**FLOW, "flow": number, "src_port": 20000 + number, "payload_bytes": payload}
        for number, payload in enumerate(payloads)
    ]
    events = [
        {"flow": 0, "sent_ns": n, "detected_ns": n + 5, "seq": n, "length": 1448, "cause": "fast_retransmit"}
        for n in (10, 20)
    ]
    return capture_losses(
        "a.pcap", pa.Table.from_pylist(rows), pa.Table.from_pylist(events), ["a.pcap: cut off"]
    )


def show(monkeypatch: pytest.MonkeyPatch, found: CaptureLosses, *, as_json: bool = False) -> str:
    monkeypatch.setattr(losses, "losses_of", lambda _path: found)
    shown = io.StringIO()
    assert losses_command([Path("a.pcap")], as_json=as_json, console=Console(file=shown, width=100)) == 0
    return shown.getvalue()


def test_a_flow_is_one_row_with_its_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    row = show(monkeypatch, capture(5000)).splitlines()[2].split()
    assert row == ["10.0.0.2:20000", "→", "10.0.0.1:5201", "100", "2", "2.000", "3", "1", "20.147"]


def test_what_the_reader_should_know_about_the_file_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a.pcap: cut off" in show(monkeypatch, capture(5000))


def test_json_has_every_loss(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    show(monkeypatch, capture(5000), as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert [event["sent_ns"] for event in answer["flows"][0]["loss_events"]] == [10, 20]


def test_flows_without_data_are_left_out_and_the_largest_is_first() -> None:
    assert [flow.flow for flow in by_size(capture(5, 0, 9))] == [2, 0]
    assert losses_table(capture(5, 0, 9)).row_count == 2


@pytest.mark.parametrize("command", [["losses"], ["detect", "wehey_loss_trend"]])
def test_a_file_that_is_no_capture_is_one_line_and_exit_code_2(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    path = tmp_path / "x.pcap"
    path.write_text("this is no capture")
    assert run_cli([*command, str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"weir: {path}: byte 0: this is no capture")
    assert len(shown.splitlines()) == 1
