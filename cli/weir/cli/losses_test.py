# SPDX-License-Identifier: Apache-2.0
import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from weir.analysis import losses
from weir.analysis.losses import CaptureCounts, CaptureLosses, capture_losses
from weir.cli.losses import FLOWS_SHOWN, losses_command, losses_table
from weir.cli.main import run_cli
from weir.telemetry.captures import Record, write_pcap

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
    "losses_before": 0,
    "copies": 0,
}


ACK = bytes.fromhex("08004500002800000000ff06") + bytes(22) + b"\x50\x10" + bytes(6)
"""A TCP segment without data in an Ethernet frame, after its addresses."""
WARNINGS = ("a.pcap: cut off",)


def flows(*payloads: int) -> pa.Table:
    """One flow per payload size; the first lost two packets."""
    return pa.Table.from_pylist(
        [
            {
                **FLOW,
                "flow": number,
                "src_port": 20000 + number,
                "payload_bytes": payload,
                "losses": 0 if number else 2,
            }
            for number, payload in enumerate(payloads)
        ]
    )


def counted(*payloads: int) -> CaptureCounts:
    """The flows of a truncated capture."""
    rows = sorted(flows(*payloads).to_pylist(), key=lambda row: -row["payload_bytes"])
    return CaptureCounts("a.pcap", 1000, 0, len(rows), 2, 0, {"rto": 2}, tuple(rows[:FLOWS_SHOWN]), WARNINGS)


def with_events(*payloads: int) -> CaptureLosses:
    """The same flows with their loss events."""
    events = [
        {
            **{"flow": 0, "sent_ns": n, "detected_ns": n + 5, "seq": n, "length": 1448},
            **{"cause": "fast_retransmit", "place": "behind", "confidence": "high"},
        }
        for n in (10, 20)
    ]
    rates = [{"flow": 0, "rate_bps": 1e6}]
    tables = (pa.Table.from_pylist(rows) for rows in (events, rates))
    return capture_losses("a.pcap", flows(*payloads), *tables, ["a.pcap: cut off"])


def show(monkeypatch: pytest.MonkeyPatch, *payloads: int, as_json: bool = False) -> str:
    monkeypatch.setattr(losses, "losses_of", lambda _path: with_events(*payloads))
    monkeypatch.setattr(losses, "counts_of", lambda _path, _largest: counted(*payloads))
    shown = io.StringIO()
    assert losses_command([Path("a.pcap")], as_json=as_json, console=Console(file=shown, width=100)) == 0
    return shown.getvalue()


def test_a_flow_is_one_row_with_its_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    row = show(monkeypatch, 5000).splitlines()[3].split()
    assert row == ["10.0.0.2:20000", "→", "10.0.0.1:5201", "100", "2", "0", "2.000", "3", "1", "20.147"]


def test_addresses_are_whole_in_80_columns() -> None:
    names = {"src": "192.168.100.200", "src_port": 50000, "dst": "203.0.113.101", "dst_port": 60000}
    largest = (counted(5000).largest[0] | names | {"packets": 1_234_567, "min_rtt_ns": 123_456_789},)
    shown = io.StringIO()
    Console(file=shown, width=80).print(losses_table(replace(counted(5000), largest=largest)))
    rows = [line.split() for line in shown.getvalue().splitlines()[3:]]
    assert rows == [
        ["192.168.100.200:50000", "→", "1234567", "2", "0", "0.000", "3", "1", "123.5"],
        ["203.0.113.101:60000"],
    ]


def test_losses_of_udp_are_unknown_and_not_none() -> None:
    row = counted(5000).largest[0] | {"protocol": 17, "losses": 0, "min_rtt_ns": None}
    shown = io.StringIO()
    counts = replace(counted(5000), largest=(row,))
    Console(file=shown, width=100).print(losses_table(counts))
    assert shown.getvalue().splitlines()[3].split()[3:] == ["100", *["–"] * 6]


def test_warnings_about_the_file_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a.pcap: cut off" in show(monkeypatch, 5000)


def test_json_has_every_loss(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    show(monkeypatch, 5000, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert [event["sent_ns"] for event in answer["flows"][0]["loss_events"]] == [10, 20]
    assert answer["flows"][0]["delivery_rate_bps"] == {"p10": 1e6, "median": 1e6, "p90": 1e6}


def test_with_many_flows_the_largest_are_shown_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = show(monkeypatch, *range(FLOWS_SHOWN + 13))
    assert "13 smaller flows are not shown" in shown
    assert f":{20000 + FLOWS_SHOWN + 12} " in shown


@pytest.mark.parametrize("command", [["losses"], ["detect", "wehey_loss_trend"]])
def test_a_file_that_is_not_a_capture_is_one_line_and_exit_code_2(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    path = tmp_path / "x.pcap"
    path.write_text("this is no capture")
    assert run_cli([*command, str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"weir: {path}: byte 0: this is no capture")
    assert len(shown.splitlines()) == 1


@pytest.mark.parametrize("path", ["server[old].pcap", "x[/bold].pcap"])
def test_brackets_in_the_name_of_a_capture_are_shown_as_they_are(path: str) -> None:
    shown = io.StringIO()
    Console(file=shown, width=100).print(losses_table(replace(counted(5000), path=path)))
    assert shown.getvalue().startswith(path)


def test_brackets_in_a_warning_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    warning = "x[/bold].pcap: cut off"
    monkeypatch.setattr(losses, "counts_of", lambda *_: replace(counted(5000), warnings=(warning,)))
    shown = io.StringIO()
    losses_command([Path("a.pcap")], as_json=False, console=Console(file=shown, width=100))
    assert warning in shown.getvalue()


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ((), "no packets in it"),
        ((b"\x88\x47" + bytes(50),) * 3, "3 records, none of them an IP packet; valid: IPv4 or"),
        ((ACK,), "no flow with data in 1 record"),
    ],
)
def test_a_table_without_rows_says_why(tmp_path: Path, frames: tuple[bytes, ...], reason: str) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; make setup builds it")
    capture = tmp_path / "a.pcap"
    write_pcap(capture, [Record(number, bytes(12) + frame) for number, frame in enumerate(frames)])
    console = Console(file=io.StringIO(), width=400)
    assert losses_command([capture], as_json=False, console=console) == 0
    assert isinstance(console.file, io.StringIO)
    assert f"{capture}: {reason}" in console.file.getvalue()


def test_json_says_that_a_capture_has_no_ip_packets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; make setup builds it")
    capture = tmp_path / "pppoe.pcap"
    write_pcap(capture, [Record(0, bytes(12) + b"\x88\x64" + bytes(50))])
    assert losses_command([capture], as_json=True, console=Console()) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert warning.startswith(f"{capture}: 1 record, none of them an IP packet; valid: IPv4 or IPv6")
