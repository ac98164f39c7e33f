# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from weir.analysis.figures import browser
from weir.cli.main import run_cli
from weir.cli.report import default_directory, title_of
from weir.rundir.directory import held
from weir_tests.analysis.tcp_capture import write_run


def test_captures_become_one_page_with_csv_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    monkeypatch.setattr(browser, "CHROMIUM", ())  # SVG files are tested elsewhere
    run = tmp_path / "run"
    write_run(run)
    plain = run / "pcap" / "server.pcap"
    packed = run / "pcap" / "again.pcap.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert run_cli(["report", str(plain), str(packed), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    page = Path(answer["page"])
    assert page == tmp_path / "report" / "index.html"  # beside the run, and not in it
    assert answer["runs"] == 2
    assert {"loss", "delay"} <= {figure["name"] for figure in answer["figures"]}
    rows = (page.parent / "data" / "loss.csv").read_text().splitlines()
    of_plain, of_packed = ([r.replace(name, "x") for r in rows if name in r] for name in ("server", "again"))
    assert of_plain == of_packed
    assert len(of_plain) == answer["flows"] / 2 > 0
    assert any("no SVG files" in note for note in answer["notes"])
    assert run_cli(["report", str(plain), "--out", str(tmp_path / "here")]) == 0
    assert "1 run, " in capsys.readouterr().out
    assert (tmp_path / "here" / "index.html").is_file()


def test_directory_and_title_of_a_page_come_from_the_paths_of_its_runs() -> None:
    runs = [Path("/r/demo/1"), Path("/r/demo/2")]
    assert (default_directory(runs), title_of(runs)) == (Path("/r/demo/report"), "demo")
    apart = [Path("/r/demo/1"), Path("/r/other/2")]
    assert (default_directory(apart), title_of(apart)) == (Path("/r/report"), "r")
    assert title_of([Path("/x/a.pcap")]) == "a.pcap"
    assert default_directory([Path("/x/a.pcap")]) == Path("/x/report")


def test_the_page_of_captures_is_never_inside_their_run(tmp_path: Path) -> None:
    first, second = tmp_path / "demo" / "1", tmp_path / "demo" / "2"
    captures = [run / "pcap" / f"{host}.pcap" for run in (first, second) for host in ("client", "server")]
    for run in (first, second):
        (run / "pcap").mkdir(parents=True)
        (run / "manifest.json").touch()
    for given in (captures[:1], captures[:2], captures, [first, captures[2]]):
        assert default_directory(given) == tmp_path / "demo" / "report"


def test_a_path_that_is_neither_run_nor_capture_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["report", str(tmp_path), str(tmp_path)]) == 2
    assert "no manifest.json in it; valid: a run directory" in capsys.readouterr().err
    (tmp_path / "text").write_text("no capture")
    assert run_cli(["report", str(tmp_path / "text")]) == 2
    assert capsys.readouterr().err.startswith(f"weir: {tmp_path / 'text'}: ")


def test_a_run_under_way_is_not_analysed_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path)
    with held(tmp_path):
        assert run_cli(["report", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"weir: {tmp_path}: the run is under way; valid: a run that has ended\n"
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    ("config", "problem"),
    [(None, "No such file or directory"), ("name: [", "not YAML"), ("name: x", "hosts: missing")],
)
def test_a_run_without_a_valid_experiment_file_gets_its_page_and_keeps_its_captures(
    config: str | None, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_run(tmp_path)
    if config is not None:
        (tmp_path / "config.yaml").write_text(config)
    assert run_cli(["report", str(tmp_path)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith(f"weir: {tmp_path / 'config.yaml'}:") and problem in line for line in lines)
    assert lines[-1] == f"weir: {tmp_path}: its captures are kept, as only its config.yaml can say otherwise"
    assert (tmp_path / "report.html").is_file()
    assert list((tmp_path / "pcap").iterdir())
