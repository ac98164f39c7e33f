# SPDX-License-Identifier: Apache-2.0
"""`weir campaign compare`: its text, its JSON and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weir.campaign.summary.model import (
    CampaignFacts,
    CellSummary,
    Counts,
    FigureValue,
    GuestKernel,
    RunFacts,
    StudyTable,
    Summary,
    summary_text,
)
from weir.cli import completion
from weir.cli.main import run_cli

COUNTS = Counts(planned=1, complete=1, invalid=0, unexplained=0)


def loss(value: float, half_width: float) -> FigureValue:
    return FigureValue(
        name="loss",
        subject="bbr",
        unit="%",
        value=value,
        n=12,
        runs=6,
        low=value - half_width,
        high=value + half_width,
        coverage=0.97,
    )


def write(folder: Path, losses: dict[str, FigureValue], kernel: str = "6.12", ours: float = 1.0) -> Path:
    """A campaign's folder with a cell of one run for each rate."""
    cells = tuple(
        CellSummary(
            cell={"rate": rate},
            counts=COUNTS,
            figures=(its,),
            runs=(
                RunFacts(
                    run=f"{rate}_r001",
                    repeat=1,
                    experiment_sha256="e",
                    digest=str(its.value),
                    unexplained=0,
                    invalid=(),
                ),
            ),
        )
        for rate, its in losses.items()
    )
    found = Summary(
        schema_version=1,
        campaign=CampaignFacts(name="c", file_sha256="f", study=None),
        digest=None,
        made_by=None,
        targets=("softswitch",),
        kernels=(GuestKernel(name=kernel, version=kernel, inputs_sha256=kernel),),
        congestion_controls=("bbr",),
        counts=COUNTS,
        left_out={},
        cells=cells,
        study=(StudyTable(name="statements", title="T", columns=("published", "ours"), rows=(("p", ours),)),),
    )
    folder.mkdir()
    (folder / "campaign.yaml").write_text("name: c\n")
    (folder / "summary.json").write_text(summary_text(found))
    return folder


def test_a_repeat_has_the_same_results_and_exit_code_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (write(tmp_path / name, {"5": loss(1, 0.5), "10": loss(2, 0.5)}) for name in "ab")
    assert run_cli(["campaign", "compare", str(a), str(b / "summary.json")]) == 0
    assert capsys.readouterr().out == "the same results: 2 figures, 2 runs with the same digest\n"
    assert run_cli(["campaign", "compare", str(a), str(b), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["schema"], answer["same"], answer["figures"]) == (1, True, [])


def test_another_kernels_figures_are_listed_largest_first_with_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    a = write(tmp_path / "a", {"5": loss(1, 0.5), "10": loss(2, 0.1), "20": loss(3, 1)})
    b = write(tmp_path / "b", {"5": loss(1.1, 0.5), "10": loss(3, 0.1), "40": loss(3, 1)}, "7.3", ours=1.5)
    assert run_cli(["campaign", "compare", str(a), str(b)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "kernel: 6.12 (6.12) → 7.3 (7.3)"
    assert lines[2:4] == ["only in A: rate=20", "only in B: rate=40"]
    assert lines[4].startswith("2 of 2 runs in virtual time have another digest, first 10_r001; ")
    rows = [" ".join(line.split()) for line in lines if line.startswith("rate=")]
    assert rows[0] == "rate=10 loss of bbr, % 2 (1.9 to 2.1) 3 (2.9 to 3.1) +1 (+50 %) 10"
    assert rows[1].startswith("rate=5 loss of bbr")
    assert lines[-2] == "statements: p, ours: 1 → 1.5"
    assert lines[-1] == "2 of 2 figures differ, 1 of them with intervals that do not meet"

    assert run_cli(["campaign", "compare", str(a), str(b), "--rows", "1"]) == 1
    shown = capsys.readouterr().out
    assert "and 1 more figure; --rows N or --json shows all" in shown
    assert "\nrate=5 " not in shown

    assert run_cli(["campaign", "compare", str(a), str(b), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert not answer["same"]
    assert [its["cell"]["rate"] for its in answer["figures"]] == ["10", "5"]
    first = answer["figures"][0]
    assert (first["difference"], first["relative"], first["apart"]) == (1.0, 0.5, True)
    assert first["in_intervals"] == pytest.approx(10)
    assert first["a"] == {"value": 2.0, "n": 12, "runs": 6, "low": 1.9, "high": 2.1, "coverage": 0.97}
    assert [(its["side"], its["cell"]["rate"]) for its in answer["only"]] == [("a", "20"), ("b", "40")]
    assert answer["digests"] == ["10_r001", "5_r001"]


def test_points_that_differ_are_valid_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write(tmp_path / "a", {"5": loss(1, 0)}), write(tmp_path / "b", {"5": loss(2, 0)})
    assert run_cli(["campaign", "compare", str(a), str(b), "--json"]) == 1
    (its,) = json.loads(capsys.readouterr().out)["figures"]
    assert (its["in_intervals"], its["apart"]) == (None, True)
    assert run_cli(["campaign", "compare", str(a), str(b)]) == 1
    assert "∞" in capsys.readouterr().out


def test_campaigns_without_a_figure_in_both_are_not_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_figures(name: str, invalid: int) -> Path:
        folder = write(tmp_path / name, {"5": loss(1, 0.5)})
        found = json.loads((folder / "summary.json").read_text())
        (cell,) = found["cells"]
        cell["figures"], cell["counts"]["invalid"] = [], invalid
        cell["runs"][0]["digest"] = None
        (folder / "summary.json").write_text(json.dumps(found))
        return folder

    a, b, whole = without_figures("a", 1), without_figures("b", 1), write(tmp_path / "c", {"5": loss(1, 0.5)})
    assert run_cli(["campaign", "compare", str(a), str(b)]) == 1
    assert capsys.readouterr().out.startswith("no figure is in both, so none is compared; ")
    assert run_cli(["campaign", "compare", str(a), str(whole)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["only in B: rate=5: loss of bbr", "rate=5: runs invalid: 1 → 0"]
    assert lines[-1].startswith("no figure is in both, so none is compared; ")


def test_figures_that_agree_are_no_difference_of_the_counts_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (write(tmp_path / name, {"5": loss(1, 0.5)}) for name in "ab")
    found = json.loads((b / "summary.json").read_text())
    found["cells"][0]["counts"]["planned"] = 2
    (b / "summary.json").write_text(json.dumps(found))
    assert run_cli(["campaign", "compare", str(a), str(b)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "rate=5: runs planned: 1 → 2",
        "0 of 1 figures differ; the lines above say what does",
    ]


def test_what_is_no_campaign_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write(tmp_path / "a", {"5": loss(1, 0)})
    assert run_cli(["campaign", "compare", str(a), str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"weir: {tmp_path / 'none'}: not found; valid: the folder of a campaign")
    assert error.count("\n") == 1
    assert run_cli(["campaign", "compare", str(a)]) == 2
    assert "B" in capsys.readouterr().err


def test_campaign_files_keep_their_place_beside_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_cli(["campaign", "no-such-file.yaml"]) == 2
    assert "no-such-file.yaml" in capsys.readouterr().err
    assert run_cli(["campaign", "--help"]) == 0
    assert "weir campaign compare" in capsys.readouterr().out
    write(tmp_path / "a", {"5": loss(1, 0)})
    assert completion.campaigns("comp") == ["compare"]
    assert completion.campaign_folders("") == ["a"]
