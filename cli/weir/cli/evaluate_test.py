# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from weir.cli import evaluate_paths
from weir.cli.errors import EXIT_INTERRUPTED
from weir.cli.main import run_cli
from weir_tests.analysis.tcp_capture import write_run

QUICK = [
    "evaluate",
    "--runs",
    "1",
    "--seconds",
    "4",
    "--detector",
    "frame-memory",
    "--scenario",
    "random-loss",
]


def test_evaluation_as_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(QUICK) == 0
    assert "random-loss" in capsys.readouterr().out
    assert run_cli([*QUICK, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["runs"], answer["seconds"], answer["first_seed"], answer["page"]) == (1, 4.0, 0, None)
    rows = answer["evaluations"]
    assert rows[0]["cpu_max_s"] >= rows[0]["cpu_s"] > 0
    assert [(row["detector"], row["scenario"], row["trials"]) for row in rows] == [
        ("frame-memory", "all", 1),
        ("frame-memory", "random-loss", 1),
    ]


def test_jitter_before_the_policer_is_seen_by_the_detector_and_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with_jitter = ["evaluate", "--runs", "1", "--seconds", "20", "--scenario", "cubic-separate", "--jitter"]
    verdicts = []
    for jitter_ms in ("0", "1"):
        assert run_cli([*with_jitter, jitter_ms, "--detector", "frame-memory", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        verdicts.append((answer.get("jitter_ms"), answer["evaluations"][0]["undecided"]))
    assert verdicts == [
        (None, 0),
        (1.0, 1),
    ]  # the memory finds two policers, and cannot tell them from one with jitter
    assert run_cli(["evaluate", str(tmp_path), "--jitter", "1"]) == 2
    assert "--jitter is added to captures, not to results: name a --detector" in capsys.readouterr().err


def test_an_unknown_name_is_an_error_that_lists_the_valid_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["evaluate", "--scenario", "x", "--detector", "shared"]) == 2
    assert "weir: no scenario 'x'; valid: cubic-shared" in capsys.readouterr().err
    assert run_cli(["evaluate", "--detector", "x"]) == 2
    assert "weir: no detector 'x'" in capsys.readouterr().err


def test_policing_is_evaluated_over_single_flows(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", "--policing", "--runs", "1", "--seconds", "6", "--detector", "policing"]
    assert run_cli([*arguments, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["policing"]
    assert {row["kind"]: row["trials"] for row in rows} == {
        "policed": 1,
        "policed-two": 2,
        "policed-cross": 1,
        "policed-limited-cross": 1,
        "shaped": 1,
        "shaped-cross": 1,
        "shaped-shallow": 1,
        "random-loss": 1,
    }
    assert run_cli(["evaluate", "--policing", "--detector", "shared"]) == 2
    assert "weir: no detector 'shared' of policing; valid: policing, " in capsys.readouterr().err
    assert run_cli(["evaluate", "--policing", "--scenario", "x"]) == 2
    assert "weir: --policing takes --detector, " in capsys.readouterr().err


def test_policing_is_evaluated_over_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_run(tmp_path)
    arguments = ["evaluate", str(tmp_path), "--policing", "--detector", "policing"]
    assert run_cli([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["results"], answer["left_out"]) == ([str(tmp_path)], [])
    [flow], [row] = answer["flows"], answer["policing"]
    assert (flow["flow"], flow["policed"], flow["verdict"]) == ("main/flow", True, "insufficient_loss")
    assert (row["kind"], row["trials"], row["undecided"]) == ("transfer", 1, 1)

    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["phases"][0]["policers"][0]["plain"] = False
    path.write_text(json.dumps(manifest))
    assert run_cli(arguments) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Left out: 1 measured flow transfer main/flow: policer only: its verdicts, colours or " in shown
    assert run_cli(["evaluate", str(tmp_path / "pcap"), "--policing"]) == 2
    assert "manifest.json: not found; a run directory holds " in capsys.readouterr().err


PATHS = ["evaluate", "--paths", "--runs", "1", "--seconds", "3"]


def test_paths_are_judged_at_every_jitter_with_figures_and_every_verdict(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "page"
    assert run_cli([*PATHS, "--detector", "frame-memory", "--out", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["pairs"], answer["complete"], answer["page"]) == (2, True, str(out / "index.html"))
    overall = [row for row in answer["evaluations"] if row["factor"] == "all"]
    assert [row["jitter_ms"] for row in overall] == [0, 0.01, 0.03, 0.1, 1, 5, 10]
    assert len((out / "trials.csv").read_text().splitlines()) == 1 + 2 * 7
    assert "Errors over jitter" in (out / "index.html").read_text()


def test_pairs_written_as_files_are_judged_from_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "pairs"
    assert run_cli([*PATHS, "--data", str(data)]) == 0
    assert "2 pairs in" in capsys.readouterr().out
    found = []
    for given in ([], [str(data)]):
        assert run_cli([*PATHS, *given, "--detector", "wehey_loss_trend", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)["evaluations"]
        found.append([(row["factor"], row["level"], row["undecided"], row["auc"]) for row in rows])
    assert found[0] == found[1]
    assert run_cli([*PATHS, "--data", str(data)]) == 2
    assert "already holds a data set" in capsys.readouterr().err
    (data / "pairs.jsonl").write_text("{\n")
    assert run_cli(["evaluate", "--paths", str(data), "--detector", "shared"]) == 2
    assert "pairs.jsonl, line 1" in capsys.readouterr().err


def test_options_that_paths_do_not_take_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for more in (["--jitter", "1"], ["--policing"], ["--scenario", "random-loss"]):
        assert run_cli([*PATHS, *more]) == 2
        assert "--paths takes runs or data sets" in capsys.readouterr().err
    assert run_cli(["evaluate", "--data", str(tmp_path)]) == 2
    assert "--data needs --paths" in capsys.readouterr().err
    assert run_cli([*PATHS, "--detector", "guess"]) == 2
    assert "no detector 'guess'" in capsys.readouterr().err


def test_pairs_written_as_files_are_one_line_of_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "pairs"
    assert run_cli([*PATHS, "--data", str(data), "--json"]) == 0
    answer = {"schema": 1, "data": str(data), "pairs": 2, "complete": True}
    assert json.loads(capsys.readouterr().out) == answer


@pytest.mark.parametrize("options", [["--detector", "frame-memory"], ["--data", "pairs"]])
def test_json_of_a_stopped_evaluation_is_one_line_too(
    options: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def then_stop(self: evaluate_paths._Bar, count: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluate_paths._Bar, "done", then_stop)
    assert run_cli([*PATHS, *options, "--json"]) == EXIT_INTERRUPTED
    shown = capsys.readouterr()
    assert json.loads(shown.out)["complete"] is False
    assert shown.err.startswith("weir: stopped")


@pytest.mark.parametrize("paths", [[], ["--paths"]])
def test_a_negative_seed_is_refused(paths: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["evaluate", *paths, "--seed", "-3"]) == 2
    assert capsys.readouterr().err.startswith(
        "weir: Invalid value for '--seed': Input should be greater than"
    )
