# SPDX-License-Identifier: Apache-2.0
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from weir.analysis.captures import CaptureTraces
from weir.analysis.detectors.policing import POLICING_DETECTORS, FlowVerdict
from weir.cli.detect import detect_command, two_files, two_flows
from weir.cli.errors import InputError
from weir.cli.main import run_cli
from weir.telemetry.captures import Record, write_pcap
from weir_tests.analysis.tcp_capture import Host, write_run


def test_a_pair_needs_two_captures_or_one_with_both_flows() -> None:
    assert two_files([Path("a.pcap"), Path("b.pcap")]) == (Path("a.pcap"), Path("b.pcap"))
    assert two_files([Path("a.pcap")]) == (Path("a.pcap"), None)
    with pytest.raises(InputError, match="3 captures; valid: one that holds both flows, or one for each"):
        two_files([Path("a")] * 3)


def test_either_both_flows_are_named_or_neither() -> None:
    assert two_flows([]) == (None, None)
    assert two_flows(["x", "y"]) == ("x", "y")
    with pytest.raises(InputError, match="1 --flow; valid: none, or --flows A B"):
        two_flows(["x"])


def test_two_flows_are_chosen_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    for name in ("a", "b"):
        write_run(tmp_path / name)
    files = [str(tmp_path / name / "pcap" / "server.pcap") for name in ("a", "b")]
    assert run_cli(["detect", "shared", *files, "--json"]) == 0
    flows = json.loads(capsys.readouterr().out)["flows"]
    assert run_cli(["detect", "shared", *files, "--flows", *flows, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["flows"], answer["verdict"]) == (flows, "cannot_tell")
    assert "4 losses" in answer["reason"]
    assert run_cli(["detect", "shared", *files]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"detector shared says cannot_tell: {answer['reason']}" in shown
    assert run_cli(["detect", "shared", *files, "--flows", flows[0], "x"]) == 2
    assert "no flow 'x' with data; there are: " + flows[1] in capsys.readouterr().err


def test_what_the_user_knows_of_the_times_replaces_what_the_captures_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    for name in ("a", "b"):
        write_run(tmp_path / name)
    files = [str(tmp_path / name / "pcap" / "server.pcap") for name in ("a", "b")]
    assert run_cli(["detect", "shared", *files, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["clocks"]["error_ns"] == 2_000_000 + 10_000_000  # 2 ms, and half an RTT
    assert [seen["jitter_from"] for seen in shown["captured"]] == ["rtts", "rtts"]
    assert run_cli(["detect", "shared", *files, "--jitter", "0.5", "--clock-error", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["clocks"]["error_ns"] == 1_000_000
    assert [seen["jitter_ns"] for seen in told["captured"]] == [500_000, 500_000]
    assert run_cli(["detect", "policing", files[0], "--jitter", "1"]) == 2
    assert "--jitter and --clock-error are for detectors of pairs" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["policin", "a.pcap"]])
def test_a_missing_or_unknown_detector_is_an_error_that_lists_the_valid_ones(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["detect", *arguments]) == 2
    shown = capsys.readouterr().err
    assert "valid: policing, policing-flach, " in shown
    assert "wehey_loss_trend" in shown


@pytest.mark.parametrize("name", list(POLICING_DETECTORS))
def test_every_flow_is_a_json_object_with_its_verdict(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_run(tmp_path)
    file = tmp_path / "pcap" / "server.pcap"
    shown = io.StringIO()
    assert detect_command(name, [file], [], as_json=True, console=Console(file=shown)) == 0
    answer = json.loads(capsys.readouterr().out)
    [flow] = answer["flows"]
    assert (flow["verdict"], flow["rate_bps"], flow["burst_bytes"]) == ("insufficient_loss", None, None)
    assert flow["reason"]
    assert detect_command(name, [file], [], as_json=False, console=Console(file=shown, width=200)) == 0
    lines = [line.rstrip() for line in shown.getvalue().splitlines()]
    assert lines == [str(file), f"{flow['flow']}: insufficient_loss", f"  {flow['reason']}"]
    with pytest.raises(InputError, match="no flow x; valid: "):
        detect_command(name, [file], ["x"], as_json=False, console=Console(file=shown))


def test_a_flow_that_is_policed_is_one_line_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(name: str, path: Path) -> tuple[CaptureTraces, list[FlowVerdict]]:
        flow = "10.0.0.2:20000-10.0.0.1:5201"
        verdict = FlowVerdict(flow, "policed", "because " * 20, rate_bps=2e7, burst_bytes=49_997.0)
        return CaptureTraces(str(path), (), ()), [verdict]

    monkeypatch.setattr("weir.analysis.detect.policing", found)
    shown = io.StringIO()
    console = Console(file=shown, width=40)
    assert detect_command("policing", [Path("a.pcap")], [], as_json=False, console=console) == 0
    lines = shown.getvalue().splitlines()
    assert lines[:2] == [
        "a.pcap",
        "10.0.0.2:20000-10.0.0.1:5201: policed, 20.000 Mbit/s, burst 49,997 bytes",
    ]
    assert all(line.startswith("  because ") and len(line) <= 40 for line in lines[2:])


def test_a_compressed_capture_gives_the_same_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    lzma = pytest.importorskip("lzma")
    write_run(tmp_path)
    file = tmp_path / "pcap" / "server.pcap"
    packed = tmp_path / "server.pcap.xz"
    packed.write_bytes(lzma.compress(file.read_bytes()))
    answers = []
    for path in (file, packed):
        assert run_cli(["detect", "policing", str(path), "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out)["flows"])
    assert answers[0] == answers[1]
    packed.write_bytes(packed.read_bytes()[:-40])
    assert run_cli(["detect", "policing", str(packed)]) == 2
    assert capsys.readouterr().err.startswith(f"weir: {packed}: byte 0: cannot be decompressed: ")


def test_brackets_in_the_name_of_a_capture_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_run(tmp_path / "a", segments=20, drop=())
    (tmp_path / "a" / "pcap" / "server.pcap").rename(tmp_path / "x[old].pcap")
    assert run_cli(["detect", "policing", str(tmp_path / "x[old].pcap")]) == 0
    assert "x[old].pcap" in capsys.readouterr().out.replace("\n", "")


def test_a_pair_with_a_capture_from_standard_input_is_judged_as_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    for name in ("a", "b"):
        write_run(tmp_path / name)
    one, other = (tmp_path / name / "pcap" / "server.pcap" for name in ("a", "b"))
    assert run_cli(["detect", "shared", str(one), str(other), "--json"]) == 0
    from_files = json.loads(capsys.readouterr().out)
    weir = "from weir.cli.main import main; main()"
    command = [sys.executable, "-c", weir, "detect", "shared", "-", str(other), "--json"]
    piped = subprocess.run(command, input=one.read_bytes(), capture_output=True, check=True).stdout
    with one.open("rb") as opened:
        redirected = subprocess.run(command, stdin=opened, capture_output=True, check=True).stdout
    assert json.loads(piped) == json.loads(redirected) == from_files
    fifo = tmp_path / "capture.fifo"
    os.mkfifo(fifo)
    for script in (f'cat {one} > {fifo} & exec "$@" {fifo}', f'exec "$@" <(cat {one})'):
        shell = ["bash", "-c", f"{script} {other} --json", "bash", *command[:5]]
        found = subprocess.run(shell, capture_output=True, check=True).stdout
        assert json.loads(found) == from_files, script


def test_standard_input_is_one_capture(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["losses", "-", "-"], ["detect", "shared", "-", "-"], ["trace", "-", "-", "-o", "x"]):
        assert run_cli(command) == 2
        said = "weir: - is given twice; valid: once, as standard input is read once\n"
        assert capsys.readouterr().err == said


def test_a_capture_without_data_has_nothing_to_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    path = tmp_path / "empty.pcap"
    Host("10.0.0.2", 40_000).write(path)
    assert run_cli(["detect", "policing", str(path)]) == 0
    assert "no TCP flow with data" in capsys.readouterr().out


@pytest.mark.parametrize(("detector", "code"), [("policing", 0), ("shared", 2)])
def test_a_capture_without_ip_packets_is_said_to_have_none(
    detector: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    path = tmp_path / "pppoe.pcap"
    write_pcap(path, [Record(0, bytes(12) + b"\x88\x64" + bytes(50))])
    assert run_cli(["detect", detector, str(path)]) == code
    said = capsys.readouterr()
    assert "1 record, none of them an IP packet" in " ".join((said.out + said.err).split())
