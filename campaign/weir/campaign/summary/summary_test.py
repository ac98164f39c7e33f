# SPDX-License-Identifier: Apache-2.0
"""The summary of a campaign: its text, its figures beside the page's, and what is read of it."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.campaign.errors import CampaignError
from weir.campaign.load import Campaign, PlannedRun, load_campaign, parse_campaign
from weir.campaign.outcome import Outcome, outcomes, read_outcome
from weir.campaign.page import cell_rows, page_and_summary, write_page
from weir.campaign.summary.model import CellSummary, FigureValue, Summary, read_summary, summary_schema_text
from weir.controlplane.config import FlowConfig
from weir.kernel.store import kernels_folder
from weir.rundir.manifest_file import ManifestFile
from weir_tests.campaign.made_up_runs import by_weight, made_up, simulated
from weir_tests.kernel.made_up_kernels import add_kernel

ROOT = Path(__file__).parents[4]
TEXT = """
name: tiny
matrix: {rate: [5 Mbit/s, 10 Mbit/s], policer: [common, non-common]}
repeats: 7
variables: {label: $policer}
description: The policer is $label.
hosts: {client: {delay: 5 ms, rate: $rate}, one: {delay: 5 ms}, two: {delay: 5 ms}}
flows:
  - {name: bbr, from: one, to: client, duration: 1 s, measured: true, congestion_control: bbr}
  - {name: cubic, from: two, to: client, duration: 1 s, measured: true, congestion_control: cubic}
  - {name: other, from: two, to: client, duration: 1 s, measured: true, congestion_control: cubic}
"""


EMPTY_SERIES = pa.table(
    {"kind": pa.array([], pa.string()), "phase": [], "subject": [], "time_s": [], "value": []}
)


def by_repeat(run: PlannedRun, flow: FlowConfig) -> float:
    """Mbit/s that grow by a tenth with each repeat."""
    return by_weight(run, flow) * (1 + run.repeat / 10)


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return simulated(tmp_path_factory.mktemp("simulated"))


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return parse_campaign(TEXT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shape: dict[str, Any], campaign: Campaign) -> Path:
    """A campaign's folder with its runs, page and summary."""
    path = tmp_path_factory.mktemp("runs") / "tiny"
    path.mkdir()
    write_page(path, campaign, made_up(campaign, path, shape, by_repeat))
    return path


def found_in(folder: Path, campaign: Campaign) -> list[Outcome]:
    return outcomes(campaign, {run.key: folder / run.key for run in campaign.runs})


def figure(cell: CellSummary, name: str, subject: str) -> FigureValue:
    (found,) = [its for its in cell.figures if (its.name, its.subject) == (name, subject)]
    return found


def test_the_last_section_of_the_page_before_its_notes_links_to_the_summary(folder: Path) -> None:
    page = (folder / "index.html").read_text()
    sections = re.findall(r'<section[^>]*id="([^"]+)"', page) or re.findall(r'<h2 id="([^"]+)"', page)
    assert [section for section in sections if section != "notes"][-1] == "summary"
    assert '<a href="summary.json">' in page
    assert read_summary(folder) == read_summary(folder / "summary.json")


def test_the_summary_has_the_same_medians_as_the_table_of_cells(folder: Path, campaign: Campaign) -> None:
    summary = read_summary(folder)
    rows = cell_rows(campaign, found_in(folder, campaign))
    assert [cell.cell for cell in summary.cells] == [dict(row.cell) for row in rows]
    for cell, row in zip(summary.cells, rows, strict=True):
        assert row.loss_ratio is not None
        assert row.throughput_bps is not None
        assert figure(cell, "loss", "all flows").value == pytest.approx(100 * row.loss_ratio)
        assert figure(cell, "throughput", "all flows").value == pytest.approx(row.throughput_bps / 1e6)
        assert cell.counts.model_dump() == {
            "planned": 7,
            "complete": 7,
            "invalid": 0,
            "unexplained": row.unexplained,
        }


def test_an_interval_counts_runs_because_the_flows_of_one_are_not_independent(
    folder: Path, campaign: Campaign
) -> None:
    cell = read_summary(folder).cells[0]
    found = figure(cell, "goodput", "cubic")
    # 5 Mbit/s: a quarter of 95 % for each of the two CUBIC flows, times 1.0 to 1.6.
    assert (found.n, found.runs, found.unit) == (14, 7, "Mbit/s")
    assert found.value == pytest.approx(5 * 0.95 / 4 * 1.3)
    # Of seven, the smallest and the largest: 1 - 2/2^7.
    assert (found.low, found.high) == (pytest.approx(5 * 0.95 / 4), pytest.approx(5 * 0.95 / 4 * 1.6))
    assert found.coverage == pytest.approx(1 - 2 / 2**7)
    goodputs = [
        flow["goodput_bps"] / 1e6
        for outcome in found_in(folder, campaign)[:7]
        for flow in outcome.measured
        if flow["cc"] == "cubic"
    ]
    assert found.value == pytest.approx(statistics.median(goodputs))


def test_verdicts_have_exact_intervals_and_their_number(folder: Path, campaign: Campaign) -> None:
    summary = read_summary(folder)
    results = found_in(folder, campaign)
    detectors = {pair["detector"] for outcome in results for pair in outcome.result["pairs"]}
    assert detectors
    for cell in summary.cells:
        truth, name = {
            "common": ("shared", "false negatives"),
            "non-common": ("separate", "false positives"),
        }[cell.cell["policer"]]
        for detector in detectors:
            pairs = [
                pair
                for outcome in results
                for pair in outcome.result["pairs"]
                if dict(outcome.cell) == cell.cell and pair["detector"] == detector
            ]
            assert {pair["truth"] for pair in pairs} <= {truth}
            decided = [pair for pair in pairs if pair["verdict"] in ("shared", "separate")]
            wrong = sum(pair["verdict"] != truth for pair in decided)
            its = [each for each in cell.figures if (each.name, each.subject) == (name, detector)]
            assert [each.n for each in its] == ([len(decided)] if decided else [])
            assert [each.value for each in its] == ([100 * wrong / len(decided)] if decided else [])


def test_the_same_runs_give_the_same_bytes_in_any_folder(
    folder: Path, tmp_path: Path, shape: dict[str, Any], campaign: Campaign
) -> None:
    write_page(tmp_path, campaign, made_up(campaign, tmp_path, shape, by_repeat))
    assert (tmp_path / "summary.json").read_bytes() == (folder / "summary.json").read_bytes()
    assert str(tmp_path) not in (tmp_path / "summary.json").read_text()


def test_an_invalid_run_is_named_and_in_no_figure(
    tmp_path: Path, shape: dict[str, Any], campaign: Campaign
) -> None:
    made = made_up(campaign, tmp_path, shape, by_repeat)
    broken = made[0].path / "result.json"
    broken.write_text(json.dumps(json.loads(broken.read_text()) | {"invalid_reasons": ["captures lost 1"]}))
    found = [read_outcome(outcome.path, campaign.limits) for outcome in made]
    _, summary = page_and_summary(campaign, found)
    cell = summary.cells[0]
    assert (cell.counts.complete, cell.counts.invalid, summary.counts.invalid) == (7, 1, 1)
    assert [run.invalid for run in cell.runs] == [("captures lost 1",)] + [()] * 6
    assert figure(cell, "throughput", "bbr").n == 6


def test_runs_without_values_over_time_are_named_on_the_page(
    tmp_path: Path, shape: dict[str, Any], campaign: Campaign
) -> None:
    found = made_up(campaign, tmp_path, shape, by_repeat)
    note = f"{len(found)} runs without series.parquet, first {found[0].key}: in no distribution of delays"
    assert page_and_summary(campaign, found)[0].notes[-1].startswith(note)
    for outcome in found:
        pq.write_table(EMPTY_SERIES, outcome.path / "series.parquet")
    assert not any("series.parquet" in its for its in page_and_summary(campaign, found)[0].notes)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file or directory"),
        ("", "Expecting value: line 1 column 1"),
        ("{}", "no 'invalid_reasons'"),
    ],
)
def test_a_run_whose_result_is_lost_says_how_to_get_it_back(
    tmp_path: Path, shape: dict[str, Any], campaign: Campaign, text: str | None, says: str
) -> None:
    path = made_up(campaign, tmp_path, shape)[0].path
    (path / "result.json").unlink() if text is None else (path / "result.json").write_text(text)
    with pytest.raises(CampaignError, match=re.escape(f"{path / 'result.json'}: {says}")) as caught:
        read_outcome(path, campaign.limits)
    assert f"`weir report {path}` makes the result anew" in str(caught.value)


def test_flows_of_two_phases_of_a_run_are_no_competitors(
    tmp_path: Path, shape: dict[str, Any], campaign: Campaign
) -> None:
    made = made_up(campaign, tmp_path, shape, lambda _run, _flow: 1.0)
    for outcome in made:
        file = outcome.path / "result.json"
        result = json.loads(file.read_text())
        result["flows"] += [
            flow | {"phase": "faster", "id": f"faster/{flow['name']}", "throughput_bps": 2e7}
            for flow in result["flows"]
        ]
        file.write_text(json.dumps(result))
    found = [read_outcome(outcome.path, campaign.limits) for outcome in made]
    page, summary = page_and_summary(campaign, found)
    index = figure(summary.cells[0], "Jain's index", "all flows")
    assert (index.value, index.n, index.runs) == (1.0, 14, 7)
    (drawn,) = [its for its in page.tables if its.name == "jain"]
    assert {row[-1] for row in drawn.rows} == {1.0}


def test_a_digest_over_all_runs_exists_once_each_has_one(
    tmp_path: Path, shape: dict[str, Any], campaign: Campaign
) -> None:
    found = made_up(campaign, tmp_path, shape)
    assert page_and_summary(campaign, found)[1].digest is None
    for number, outcome in enumerate(found):
        file = ManifestFile.load(outcome.path)
        file.update(digest=f"{number:064x}")
        file.rewrite()
    found = [read_outcome(outcome.path, campaign.limits) for outcome in found]
    summary = page_and_summary(campaign, found)[1]
    lines = sorted((outcome.key, f"{number:064x}") for number, outcome in enumerate(found))
    text = "".join(f"{digest}  {run}\n" for run, digest in lines)
    assert summary.digest == hashlib.sha256(text.encode()).hexdigest()


def test_a_study_has_its_comparison_with_what_is_published_in_the_summary(
    tmp_path: Path, shape: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    add_kernel(kernels_folder(), "6.12", ("bbr", "cubic"))
    campaign = load_campaign(ROOT / "experiments" / "bbr-dominant.yaml", quick=True)
    campaign = campaign.offered_by(["bbr", "cubic", "reno", "vegas"])
    page, summary = page_and_summary(campaign, made_up(campaign, tmp_path, shape))
    (table,) = [its for its in summary.study if its.name == "statements"]
    (shown,) = [its for its in page.tables if its.name == "statements"]
    assert table.columns == shown.columns
    assert [row[0] for row in table.rows] == [row[0] for row in shown.rows]
    assert summary.campaign.study == "bbr-dominant"


def test_the_committed_schema_is_that_of_the_models(folder: Path) -> None:
    committed = (ROOT / "docs" / "spec" / "campaign-summary.schema.json").read_text()
    assert committed == summary_schema_text(), (
        "stale: run `weir schema --summary > docs/spec/campaign-summary.schema.json`"
    )
    keys = json.loads((folder / "summary.json").read_text()).keys()
    assert keys == json.loads(committed)["properties"].keys() == set(json.loads(committed)["required"])
    assert [field.alias or name for name, field in Summary.model_fields.items()] == list(keys)


def test_a_figure_is_one_line_so_that_diff_shows_it(folder: Path) -> None:
    lines = (folder / "summary.json").read_text().splitlines()
    assert sum(line.lstrip().startswith('{"name": "goodput"') for line in lines) == 4 * 2


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("summary.json", "{", "valid: the summary.json of a campaign"),
        ("summary.json", '{"schema": 1, "runs": []}', "not the summary of a campaign"),
        ("summary.json", "[1]", "not the summary of a campaign"),
        (
            "summary.json",
            '{"schema": 0, "campaign": {}, "cells": []}',
            "schema: 0, of an older weir; valid: 1",
        ),
        (
            "summary.json",
            '{"schema": 2, "campaign": {}, "cells": []}',
            "schema: 2, of a newer weir; valid: 1",
        ),
        ("summary.json", '{"schema": 1, "campaign": {}, "cells": []}', "campaign.name: Field required"),
        ("campaign.yaml", "name: x", "a campaign without summary.json"),
        ("manifest.json", "{}", "one run; valid: the folder of a campaign"),
        ("other", "", "not a campaign; valid: the folder of a campaign, such as runs/wehey-bbr"),
    ],
)
def test_what_is_no_summary_is_refused_by_name(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(CampaignError, match=re.escape(says)) as caught:
        read_summary(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="none: not found; valid: the folder of a campaign"):
        read_summary(tmp_path / "none")
