# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import weir
from weir.campaign.load import Campaign, parse_campaign
from weir.campaign.outcome import Outcome
from weir.campaign.page import page_of
from weir.rundir.campaign_folder import CAMPAIGN_FILE
from weir_tests.campaign.made_up_runs import made_up, simulated

TEXT = """
name: buffers
description: How large a buffer?
matrix:
  policer: [2 BDP, 1 BDP]
  cc: [cubic, bbr]
repeats: 2
hosts:
  client: {delay: 10 ms, rate: 20 Mbit/s, queue: $policer}
  server: {delay: 10 ms}
flows:
  - {name: mine, from: server, to: client, congestion_control: $cc, duration: 10 s, measured: true}
  - {name: other, from: server, to: client, duration: 10 s}
"""


@pytest.fixture(scope="module", name="made")
def _made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Campaign, list[Outcome]]:
    folder = tmp_path_factory.mktemp("runs") / "buffers"
    folder.mkdir()
    campaign = parse_campaign(TEXT)
    found = made_up(campaign, folder, simulated(tmp_path_factory.mktemp("simulated")))
    (folder / CAMPAIGN_FILE).write_text(TEXT)
    for other in ("failed", "data", ".partial/run"):
        (folder / other).mkdir(parents=True)
    return folder, campaign, found


def test_a_campaign_is_its_complete_runs_in_the_order_of_its_matrix(
    made: tuple[Path, Campaign, list[Outcome]],
) -> None:
    folder, planned, _ = made
    campaign = weir.open_campaign(folder)
    assert (campaign.name, campaign.axes, len(campaign)) == ("buffers", ("policer", "cc"), 8)
    assert [run.run_id for run in campaign] == [run.key for run in planned.runs]
    assert [dict(run.cell) for run in campaign] == [dict(run.cell) for run in planned.runs]


def test_parts_with_other_labels_of_one_axis_each_keep_their_order(tmp_path: Path) -> None:
    parts = (
        "parts: {deep: {matrix: {policer: [4 BDP, 3 BDP, 1 BDP]}},"
        " shallow: {matrix: {policer: [1 BDP, 3 BDP]}}}"
    )
    text = TEXT.replace("  policer: [2 BDP, 1 BDP]\n", "") + parts + "\n"
    folder = tmp_path / "buffers"
    folder.mkdir()
    planned = parse_campaign(text)
    made_up(planned, folder, simulated(tmp_path))
    (folder / CAMPAIGN_FILE).write_text(text)
    assert [run.run_id for run in weir.open_campaign(folder)] == [run.key for run in planned.runs]


def test_the_table_has_the_rows_of_the_page(made: tuple[Path, Campaign, list[Outcome]]) -> None:
    folder, planned, found = made
    (page,) = [
        item for section in page_of(planned, found).sections for item in section.items if item.name == "runs"
    ]
    rows = weir.open_campaign(folder).table.arrow().to_pylist()
    assert [
        (
            *(row["cell_policer"], row["cell_cc"], row["repeat"], row["unexplained"], row["policers_rates"]),
            *(row["woke_late_p99_ms"], row["switch_late_p99_ms"]),
        )
        for row in rows
    ] == [(*row[:3], *row[5:]) for row in page.rows]
    assert all(row["valid"] and row["invalid_reasons"] == "" for row in rows)
    goodput_bps = [outcome.measured[0]["goodput_bps"] for outcome in found]
    assert [row["goodput_bps"] for row in rows] == goodput_bps


def test_the_flows_of_all_runs_are_one_table_with_their_cells(
    made: tuple[Path, Campaign, list[Outcome]],
) -> None:
    folder, _, found = made
    frame = weir.open_campaign(folder).flows.pandas()
    assert len(frame) == 16
    # The axis `policer` and the flow's column of that name are both there.
    assert frame["cell_policer"].unique().tolist() == ["2 BDP", "1 BDP"]
    assert frame["policer"].isna().all()
    mine = frame[(frame["name"] == "mine") & (frame["cell_cc"] == "bbr")]
    wanted = {outcome.measured[0]["goodput_bps"] for outcome in found if outcome.cell["cc"] == "bbr"}
    assert set(mine["goodput_bps"]) == wanted


def test_runs_beyond_the_limits_of_the_file_are_invalid(made: tuple[Path, Campaign, list[Outcome]]) -> None:
    folder, _, _ = made
    try:
        (folder / CAMPAIGN_FILE).write_text(TEXT + "limits: {scheduling_p99: 10 us}\n")
        campaign = weir.open_campaign(folder)
        assert "8 complete runs, 8 invalid" in repr(campaign)
        assert "8 invalid" in campaign._repr_html_()
        assert set(campaign.table.pandas()["valid"]) == {False}
    finally:
        (folder / CAMPAIGN_FILE).write_text(TEXT)


def test_a_folder_that_is_no_campaign_is_refused(made: tuple[Path, Campaign, list[Outcome]]) -> None:
    folder, _, _ = made
    with pytest.raises(weir.CampaignError, match=r"no campaign; valid: a folder .*campaign\.yaml"):
        weir.open_campaign(folder / "failed")
    with pytest.raises(weir.CampaignError, match="not found"):
        weir.open_campaign(folder / "nothing")
    with pytest.raises(weir.CampaignError, match=r"a run; valid: weir\.open_run"):
        weir.open_campaign(next(iter(weir.open_campaign(folder))).path)


def test_a_run_with_a_broken_result_is_named(
    tmp_path: Path, made: tuple[Path, Campaign, list[Outcome]]
) -> None:
    _, _, found = made
    broken: dict[str, Any] = json.loads((found[0].path / "result.json").read_text())
    (tmp_path / CAMPAIGN_FILE).write_text(TEXT)
    run = tmp_path / found[0].key
    run.mkdir()
    (run / "manifest.json").write_bytes((found[0].path / "manifest.json").read_bytes())
    del broken["flows"], broken["invalid_reasons"]
    (run / "result.json").write_text(json.dumps(broken))
    with pytest.raises(weir.CampaignError, match="invalid_reasons"):
        len(weir.open_campaign(tmp_path))
