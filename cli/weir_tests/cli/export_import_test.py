# SPDX-License-Identifier: Apache-2.0
"""`weir export` and `weir import`: a real run gives the same result elsewhere, and errors are lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from weir.cli.errors import EXIT_DISK
from weir.cli.main import run_cli
from weir.rundir import whole_files
from weir.topo.sandbox import sandbox_problem
from weir.topo.script import Block, Script
from weir_tests.archive.made_up_run import make_campaign, make_run
from weir_tests.archive.zips import written, zip_of
from weir_tests.cli.processes import wait_until

WEIR = str(Path(sys.executable).with_name("weir"))
EXPERIMENT = """
name: small
seed: 20261124
hosts: {client: {delay: 5 ms}, one: {delay: 5 ms}, two: {delay: 5 ms}}
flows:
  - {name: one, from: one, to: client, congestion_control: bbr, duration: 2 s, measured: true}
  - {name: two, from: two, to: client, duration: 2 s, measured: true}
background:
  - {name: many, from: two, to: client, duration: 2 s, rate: 1 Mbit/s, mean_size: 20 kB, largest_size: 200 kB}
policers:
  - {name: p, rate: 10 Mbit/s, burst: 20 kB, match: [{to: client}]}
"""
REPLAY = Script(
    (Block("client", 0, ((0.0, 200),)), Block("server", 200, ((0.0, 100_000), (0.3, 100_000))))
).text
needs_sandbox = pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}")


def weir(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([WEIR, *arguments], cwd=folder, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done


@needs_sandbox
def test_a_run_of_real_traffic_imported_elsewhere_and_analysed_again_has_the_same_result(
    tmp_path: Path,
) -> None:
    here, there = tmp_path / "here-is-secret", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "small.yaml").write_text(EXPERIMENT)
    weir(here, "run", "small.yaml", "--plain")
    original = (here / "runs" / "small" / "latest").resolve()

    exported = json.loads(
        weir(here, "export", "runs/small/latest", "-o", str(there / "a.zip"), "--json").stdout
    )
    assert exported["remains"] == []
    assert [run["analysable"] for run in exported["runs"]] == [True]
    (here / "runs").rename(tmp_path / "away")  # nothing of the archive leads back to it

    imported = json.loads(weir(there, "import", "a.zip", "--json").stdout)
    (run,) = imported["runs"]
    assert (run["run"], run["new"], run["seed"], run["analysable"]) == (
        f"runs/small/{original.name}",
        True,
        20261124,
        True,
    )
    copy = there / run["run"]
    before = {path.relative_to(copy): path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    derived = ("result.json", "flows.parquet", "series.parquet", "features.parquet")
    for name in (*derived, "report.html"):
        (copy / name).unlink()
    shown = weir(there, "report", run["run"], "--json").stdout

    away = tmp_path / "away" / "small" / original.name
    for name in derived:
        assert (copy / name).read_bytes() == before[Path(name)] == (away / name).read_bytes(), name
    result = json.loads((copy / "result.json").read_text())
    assert json.loads(shown) == result
    # It was a run with something to find.
    assert sum(flow["reported_drops"] for flow in result["flows"]) > 20
    assert [flow["unexplained"] for flow in result["flows"]] == [0, 0]

    raw = ("config.yaml", "manifest.json", "collector.json", "telemetry.parquet", "sockets.parquet")
    for name in (*raw, *(f"pcap/{host}.pcap" for host in ("client", "one", "two"))):
        assert (copy / name).read_bytes() == (away / name).read_bytes(), name
    for path, data in before.items():
        assert b"here-is-secret" not in data, path
    log = json.loads(next(data for path, data in before.items() if path.name == "flow-main-one.json"))
    assert log["start"]["system_info"].split()[:2] == ["Linux", "host"]


@needs_sandbox
def test_a_run_is_repeated_by_the_command_of_the_readme(tmp_path: Path) -> None:
    """The command of an archive's README, in the folder into which it was imported."""
    (tmp_path / "talk.replay").write_text(REPLAY)
    (tmp_path / "small.yaml").write_text(
        "name: replayed\nhosts: {client: {}, one: {}}\n"
        "flows: [{name: a, from: one, to: client, duration: 1 s, replay: talk.replay, measured: true}]\n"
        "policers: [{name: p, rate: 10 Mbit/s, burst: 20 kB, match: [{to: client}]}]\n"
    )
    weir(tmp_path, "run", "small.yaml")
    weir(tmp_path, "export", "runs/replayed/latest", "-o", "a.zip")
    there = tmp_path / "there"
    there.mkdir()
    weir(there, "import", "../a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        readme = archive.read("README.md").decode().splitlines()
    (command,) = [line for line in readme if line.startswith("weir run ")]
    weir(there, *command.split()[1:])
    results = [json.loads(path.read_text()) for path in sorted(there.glob("runs/replayed/2*/result.json"))]
    assert len(results) == 2
    for result in results:
        assert [flow["unexplained"] for flow in result["flows"]] == [0]


def read(text: str) -> Any:
    return json.loads(text)


def test_a_campaign_is_exported_and_imported_with_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_campaign(Path("runs/buffers"), "5_r001", "10_r001")
    make_run(Path("runs/buffers/results-only_r001"), raw=False)
    assert run_cli(["export", "runs/buffers", "--license", "CC-BY-4.0"]) == 0
    shown = capsys.readouterr().out
    assert "1 run without captures, which cannot be analysed again\n" in shown
    assert "buffers.zip: 3 runs, " in shown
    assert "open it with: weir import buffers.zip\n" in shown
    assert run_cli(["import", "buffers.zip", "--runs", "elsewhere"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "buffers/10_r001: ended 2025-10-09T08:54:40Z, seed 7, weir 0.1.0 (0123456789ab), "
    )
    assert "3 new runs in elsewhere" in lines[3]
    assert "analyse again:  weir report elsewhere/buffers/10_r001" in lines
    # Of one version, but not of one commit.
    (other,) = [line for line in lines if line.startswith("made by ")]
    assert other.startswith("made by weir 0.1.0 (0123456789ab); this is weir 0.1.0")
    assert other.endswith(", which may analyse otherwise")
    assert "without captures, so not to be analysed again: 1" in lines
    assert lines[-1] == "campaign:       elsewhere/buffers/index.html"
    for name in ("campaign.yaml", "index.html", "data/loss.csv", "5_r001/result.json"):
        assert Path("elsewhere/buffers", name).read_bytes() == Path("runs/buffers", name).read_bytes()
    assert run_cli(["import", "buffers.zip", "--runs", "elsewhere", "--json"]) == 0
    assert [run["new"] for run in read(capsys.readouterr().out)["runs"]] == [False] * 3


def test_the_command_that_opens_an_archive_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "für die Prüfung.zip"
    make_run(tmp_path / "demo" / "20260101T000000Z")
    assert run_cli(["export", str(tmp_path / "demo" / "20260101T000000Z"), "-o", str(archive)]) == 0
    assert f"weir import '{archive}'" in capsys.readouterr().out.replace("\n", "")


def test_an_archive_cannot_write_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1", weir_version="\x1b[2J0.1", commit="\x1b]0;evil\x07")
    assert run_cli(["export", str(run), "-o", str(tmp_path / "a.zip")]) == 0
    assert run_cli(["import", str(tmp_path / "a.zip"), "--runs", str(tmp_path / "x")]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_errors_are_lines_that_name_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(Path("runs/demo/r1"), complete=False, state="interrupted")
    make_run(Path("runs/demo/r2"), complete=False, state="failed")
    assert run_cli(["export", "runs/demo/r1", "runs/demo/r2"]) == 2
    error = capsys.readouterr().err
    assert error.splitlines() == [
        f"weir: {tmp_path}/runs/demo/{name}: the run did not finish ({state}); valid: a finished run, or "
        "--unfinished"
        for name, state in (("r1", "interrupted"), ("r2", "failed"))
    ]
    assert not list(tmp_path.glob("*.zip*"))
    assert run_cli(["export", "runs"]) == 2
    assert capsys.readouterr().err.startswith("weir: runs: no run and no campaign; valid: ")
    assert run_cli(["import", "no.zip"]) == 2
    assert capsys.readouterr().err == "weir: no.zip: No such file or directory; valid: a file\n"
    written(tmp_path / "evil.zip", zip_of([("../evil", b"")]))
    assert run_cli(["import", "evil.zip"]) == 2
    assert capsys.readouterr().err.startswith(
        "weir: evil.zip: '../evil': '..' as a part of its path; valid: "
    )
    assert run_cli(["export", "runs/demo/r1", "--unfinished", "-o", "/dev/full/a.zip"]) != 0
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_full_disk_is_one_line_and_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(Path("runs/demo/r1"))
    monkeypatch.setattr(whole_files, "_own_part_of", whole_files.part_of)
    Path("a.zip.part").symlink_to("/dev/full")
    assert run_cli(["export", "runs/demo/r1", "-o", "a.zip"]) == EXIT_DISK
    assert capsys.readouterr().err == "weir: a.zip: No space left on device\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_export_leaves_no_half_archive(tmp_path: Path, number: signal.Signals) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    # Incompressible and long enough to be under way when the signal comes.
    with (run / "pcap" / "client.pcap").open("wb") as file:
        for _ in range(60):
            file.write(os.urandom(10_000_000))
    process = subprocess.Popen(
        [WEIR, "export", str(run), "-o", "a.zip"], cwd=tmp_path, stderr=subprocess.PIPE
    )
    wait_until(
        lambda: any(part.stat().st_size > 1_000_000 for part in tmp_path.glob("a.zip.*.part")),
        60,
        lambda: "no archive begun",
    )
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
