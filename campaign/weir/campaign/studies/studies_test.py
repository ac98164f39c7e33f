# SPDX-License-Identifier: Apache-2.0
"""The pages of the shipped studies: drawn in a browser, and with the numbers computed by hand."""

from __future__ import annotations

import importlib
import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from weir.analysis.figures import Figure, Section, Table, browser, render_study
from weir.analysis.figures.page import as_csv
from weir.campaign.load import Campaign, Overrides, PlannedRun, load_campaign
from weir.campaign.outcome import Outcome
from weir.campaign.page import page_and_summary, page_of, short_names
from weir.campaign.studies import STUDIES
from weir.campaign.studies.bbr_dominant import first_ahead
from weir.campaign.studies.measured import Measured
from weir.campaign.studies.statements import compare
from weir.campaign.studies.when_to_use_bbr import kept_until
from weir.campaign.summary.model import summary_text
from weir.campaign.virtual import with_kernels
from weir.controlplane.config import FlowConfig
from weir.kernel.store import kernels_folder
from weir_tests.campaign.made_up_runs import MEAN_DELAY_S, MIN_RTT_S, by_weight, made_up, simulated
from weir_tests.kernel.made_up_kernels import add_kernel

EXPERIMENTS = Path(__file__).parents[4] / "experiments"
SHIPPED = [
    (path.stem, study[1])
    for path in sorted(EXPERIMENTS.glob("*.yaml"))
    if (study := re.search(r"^study: (.+)$", path.read_text(), re.MULTILINE))
]
"""Each shipped campaign of a study, and the study's name."""
STATEMENT_STUDIES = tuple(name for name in STUDIES if name != "wehey-bbr")


@pytest.fixture(autouse=True)
def made_up_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels that shipped campaigns name, whether or not this machine has any."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("6.12", "bbr3", "gain"):
        add_kernel(kernels_folder(), name, ("bbr", "cubic"))


@pytest.fixture(scope="module")
def shape(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return simulated(tmp_path_factory.mktemp("simulated"))


def campaign_of(name: str) -> Campaign:
    return load_campaign(EXPERIMENTS / f"{name}.yaml", quick=True).offered_by(
        ["bbr", "cubic", "reno", "vegas", "prague"]
    )


def sections(name: str, found: list[Outcome]) -> tuple[Section, ...]:
    made: tuple[Section, ...] = importlib.import_module(STUDIES[name]).sections(found)
    return made


def item(found: tuple[Section, ...], name: str) -> Table:
    (its,) = [each for section in found for each in section.items if each.name == name]
    return its


def column(table: Table, name: str) -> list[Any]:
    return [row[table.columns.index(name)] for row in table.rows]


def test_every_study_has_a_shipped_campaign() -> None:
    assert {study for _, study in SHIPPED} == set(STUDIES)


@pytest.mark.parametrize(("name", "study_name"), SHIPPED, ids=[name for name, _ in SHIPPED])
def test_the_page_of_a_shipped_campaign_draws_every_figure_without_browser_errors(
    name: str, study_name: str, tmp_path: Path, shape: dict[str, Any]
) -> None:
    if browser.chromium() is None:
        pytest.skip("chromium: not on PATH; sudo apt-get install chromium")
    campaign = campaign_of(name)
    assert campaign.study == study_name
    study, summary = page_and_summary(campaign, made_up(campaign, tmp_path, shape))
    (tmp_path / "summary.json").write_text(summary_text(summary))
    for table in study.tables:
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{table.name}.csv").write_text(as_csv(table))
    page = tmp_path / "index.html"
    page.write_text(render_study(study, drawn=False))
    found = browser.opened(page)
    assert found.console == ()
    figures = [table for table in study.tables if isinstance(table, Figure)]
    assert len(figures) >= 5
    assert len({table.name for table in study.tables}) == len(study.tables)
    for figure in figures:
        begin = found.dom.index(f'id="figure-{figure.name}"')
        # Plotly inserts an SVG into the element; `js-plotly-plot` is also the class of an empty one.
        assert '<svg class="main-svg"' in found.dom[begin : found.dom.index("</figure>", begin)], figure.name
    shown = re.sub(r"<script.*?</script>", "", found.dom, flags=re.DOTALL)
    ids = set(re.findall(r'id="([^"]+)"', shown))
    links = [unescape(link) for link in re.findall(r'<a href="([^"]+)"', shown)]
    assert len(links) > len(figures)
    for link in links:
        assert link[1:] in ids if link.startswith("#") else (tmp_path / link).is_file(), link


@pytest.mark.parametrize("name", STATEMENT_STUDIES)
def test_summary_and_table_have_every_statement_and_nothing_is_compared_without_runs(
    name: str, tmp_path: Path, shape: dict[str, Any]
) -> None:
    nothing = sections(name, [])
    assert nothing[0].text == "No valid run yet, so there is nothing to compare."
    assert set(column(item(nothing, "statements"), "in a word")) == {"not run"}
    found = sections(name, made_up(campaign_of(name), tmp_path, shape))
    table = item(found, "statements")
    verdicts = column(table, "in a word")
    agree = verdicts.count("agrees")
    known = agree + verdicts.count("does not agree")
    assert known == len(verdicts) - verdicts.count("not run") > 0
    assert found[0].text.startswith(f"Of {known} published statements that ")
    assert f"can tell about, {agree} agree." in found[0].text
    for says, published, ours, difference in zip(
        *(column(table, each) for each in ("published", "its number", "our number", "difference")),
        strict=True,
    ):
        assert says in found[0].text
        if published is not None and ours is not None:
            assert difference == pytest.approx(ours - published, abs=0.0011)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        # BBR and CUBIC under one condition have one name, because the figures show them apart.
        ("bbr-or-cubic-table", "250 ms, 100 kB, 7 %, 1 Gbit/s"),
        # Flows of CUBIC run beside both BBR and Vegas, so these are told apart.
        ("bbr-dominant", "bbr, 1"),
        ("buffer-class", "0.01 BDP"),
        ("wehey-bbr", "40 Mbit/s, BBR with BBR, common"),
    ],
)
def test_scenarios_are_told_apart_by_short_names(
    name: str, short: str, tmp_path: Path, shape: dict[str, Any]
) -> None:
    campaign = load_campaign(EXPERIMENTS / f"{name}.yaml")
    found = made_up(campaign, tmp_path, shape)
    names = short_names(found)
    assert next(iter(names.values())) == short
    cells = {
        (names[", ".join(run.cell.values())], flow["cc"], tuple(run.cell.values()))
        for run in found
        for flow in run.measured
    }
    assert len({at[:2] for at in cells}) == len(cells)


def test_a_label_that_all_cells_share_is_in_no_short_name(tmp_path: Path, shape: dict[str, Any]) -> None:
    found = made_up(load_campaign(EXPERIMENTS / "wehey-bbr.yaml"), tmp_path, shape)
    some = [run for run in found if run.cell["policer"] == "common"]
    assert "40 Mbit/s, BBR with BBR" in short_names(some).values()


def test_the_congestion_control_of_several_flows_stays_in_the_name(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    # Fairness and verdicts are shown by scenario alone: those of BBR and of CUBIC must not be in one box.
    found = made_up(load_campaign(EXPERIMENTS / "bbr-or-cubic-table.yaml"), tmp_path, shape)
    twice = [
        Outcome(**{**vars(run), "result": {**run.result, "flows": 2 * run.result["flows"]}}) for run in found
    ]
    assert "250 ms, 100 kB, 7 %, 1 Gbit/s, bbr" in short_names(twice).values()


def test_invalid_runs_are_not_counted(tmp_path: Path, shape: dict[str, Any]) -> None:
    campaign = campaign_of("bbr-dominant")
    runs = made_up(campaign, tmp_path, shape)
    spoiled = Outcome(**{**vars(runs[-1]), "invalid_reasons": ("busy",), "result": {"flows": []}})
    found = sections("bbr-dominant", [*runs[:-1], spoiled])
    assert f"that {len(runs) - 1} valid runs" in found[0].text


def test_each_kernel_is_compared_by_itself(tmp_path: Path, shape: dict[str, Any]) -> None:
    overrides = Overrides(time="virtual", kernels=("6.12", "bbr3"))
    campaign = load_campaign(EXPERIMENTS / "bbr-or-cubic-table.yaml", quick=True, overrides=overrides)
    (tmp_path / "runs").mkdir()
    found = made_up(with_kernels(campaign, 1024), tmp_path / "runs", shape)
    page = page_of(campaign, found)
    names = [table.name for table in page.tables]
    assert len(set(names)) == len(names)
    halves = [[run for run in found if run.cell["kernel"] == name] for name in ("6.12", "bbr3")]
    assert len(halves[0]) == len(halves[1]) == len(found) / 2
    for half, suffix in zip(halves, ("6-12", "bbr3"), strict=True):
        alone = item(sections("bbr-or-cubic-table", half), "statements")
        assert item(page.sections, f"statements-{suffix}").rows == alone.rows
    assert column(item(page.sections, "cells"), "kernel").count("bbr3") == len(halves[1])
    assert page.meta.endswith("; virtual time, kernel 6.12 (6.12.117), bbr3 (6.12.117)")


def test_bbr_dominant_shows_mean_goodput_by_congestion_control_and_queueing_delay(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    found = sections("bbr-dominant", made_up(campaign_of("bbr-dominant"), tmp_path, shape))
    rates = {row[:2]: row[2] for row in item(found, "figure-8a").rows}
    # One BBR flow of weight 2 beside nine of weight 1 shares 95 Mbit/s; ten alike share it evenly.
    assert rates["BBR", 1.0] == pytest.approx(95 * 2 / 11)
    assert rates["CUBIC", 9.0] == pytest.approx(95 / 19)
    assert rates["BBR", 10.0] == pytest.approx(9.5)
    waits = {row[:2]: row[2] for row in item(found, "figure-8b").rows}
    assert waits["with BBR", 3.0] == pytest.approx(1e3 * (MIN_RTT_S + MEAN_DELAY_S) - 40)


def test_first_ahead_is_the_smallest_n_from_which_cubic_stays_ahead() -> None:
    assert first_ahead({1: 9, 2: 5, 3: 4, 4: 3}, {1: 1, 2: 6, 3: 2, 4: 8}) == 4
    assert first_ahead({1: 9, 2: 5, 3: 4}, {1: 1, 2: 6, 3: 7}) == 2
    assert math.isnan(first_ahead({1: 9}, {1: 1}) or 0)
    assert first_ahead({1: 9}, {}) is None


def test_the_cliff_is_the_last_loss_before_goodput_falls_below_three_quarters_of_what_loss_leaves() -> None:
    # 20 % loss leaves 76 of 95 Mbit/s; three quarters of that are 57.
    assert kept_until([(0, 95), (10, 85), (20, 57.1), (30, 5), (40, 60)]) == 20
    assert kept_until([(0, 95), (10, 85), (20, 56.9), (30, 5)]) == 10
    assert kept_until([(0, 95), (10, 5), (20, 4)]) == 0
    assert kept_until([(0, 95), (10, 5)]) is None
    assert kept_until([(5, 95), (10, 90), (20, 80)]) is None


def test_statements_agree_by_the_rule_in_the_file() -> None:
    def verdict(rule: dict[str, Any], ours: float | None) -> bool | None:
        statement = {"says": "s", "where": "w", "unit": "u", "ours": "o", "value": 10} | rule
        return compare({"statements": {"x": statement}}, "x", None if ours is None else Measured(ours)).agrees

    assert verdict({"rule": "above"}, 10.1) is True
    assert verdict({"rule": "above"}, 10) is False
    assert verdict({"rule": "below", "bound": 0}, -0.1) is True
    assert verdict({"rule": "below", "bound": 0}, 0) is False
    assert [verdict({"rule": "within", "tolerance": 0.1}, x) for x in (8.9, 9.5, 11.1)] == [
        False,
        True,
        False,
    ]
    assert [verdict({"rule": "factor", "tolerance": 2}, x) for x in (4.9, 5, 20, 21)] == [
        False,
        True,
        True,
        False,
    ]
    assert verdict({"rule": "above"}, None) is None
    assert verdict({"rule": "above"}, math.nan) is False
    with pytest.raises(ValueError, match="valid: above, below, within, factor"):
        verdict({"rule": "beside"}, 1)


def test_the_bitrate_table_has_every_published_bitrate_ours_and_the_winners(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    found = sections("bbr-or-cubic-table", made_up(campaign_of("bbr-or-cubic-table"), tmp_path, shape))
    table = item(found, "rows")
    assert len(table.rows) == 8 + 1
    first = dict(zip(table.columns, table.rows[0], strict=True))
    assert first["BBR published"] == 22.6
    # The quick grid has 100 Mbit/s instead of 1 Gbit/s; BBR gets 95 % of it, and 86 % of that at 7 % loss.
    assert first["our Mbit/s"] == 100
    assert first["BBR ours"] == pytest.approx(95 * 0.86)
    assert first["BBR ours ÷ published"] == pytest.approx(95 * 0.86 / 22.6, abs=0.01)
    assert first["CUBIC difference"] == pytest.approx(95 * 0.65 - 0.285)
    assert (first["published winner"], first["our winner"]) == ("BBR", "BBR")
    assert dict(zip(table.columns, table.rows[-1], strict=True))["published winner"] is None


def test_gain_share_and_goodput_come_from_separate_parts(tmp_path: Path, shape: dict[str, Any]) -> None:
    def goodput(run: PlannedRun, flow: FlowConfig) -> float:
        if run.cell["part"] == "share":
            return 30.0 if flow.congestion_control == "bbr" else 10.0
        alone = {"bbr": 43.0, "cubic": 20.0}[flow.congestion_control]
        return alone if run.cell["part"].startswith("alone") else by_weight(run, flow)

    found = sections("when-to-use-bbr", made_up(campaign_of("when-to-use-bbr"), tmp_path, shape, goodput))
    gains = [row[2] for row in item(found, "gp-gain-100kb").rows]
    assert gains == [pytest.approx(115)] * 2 * 3
    assert {row[2] for row in item(found, "cubic-again-10mb").rows} == {3}
    # The condition of the published gain is run twice, once in each part.
    gain = next(row for row in item(found, "statements").rows if "115 %" in str(row[0]))
    assert gain[2:7] == (115, 115.0, 115.0, 115.0, 50.0)
    shares = item(found, "figure-4").rows
    assert {row[2] for row in shares if row[0] == "BBR"} == {75.0}
    assert [row[1] for row in shares if row[0] == "CUBIC"] == [10, 100, 1000, 10_000]
    cliff = {row[:2]: row[2] for row in item(found, "figure-5").rows}
    assert cliff["BBR", 10.0] == pytest.approx(95 * 0.8)


def test_buffer_class_shows_shares_and_jains_index_of_the_two_flows(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    found = sections("buffer-class", made_up(campaign_of("buffer-class"), tmp_path, shape))
    shares = [row[2] for row in item(found, "figure-1").rows if row[0] == "BBR"]
    assert shares == [pytest.approx(200 / 3)] * 10
    # Jain's index of rates 2 and 1: (2 + 1)² ÷ (2 × (4 + 1)).
    jains = [row[2] for row in item(found, "figure-3b").rows if row[0] == "Jain's index"]
    assert jains == [pytest.approx(0.9)] * 10
    features = item(found, "features")
    assert features.rows[0][2:] == (3, 9_000, 9.0, 9_000, 0.01, 9.0)
    assert column(features, "buffer, BDP") == [0.01 * 2**n for n in range(10)]


def test_bbr_ml_shows_fairness_with_and_without_tuning_and_the_decisions_that_were_right(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    def goodput(run: PlannedRun, flow: FlowConfig) -> float:
        # Gains of 75 % and tuners are fair; all others give BBR three quarters.
        fair = run.cell.get("gain") == "75" or run.experiment.hosts["sender"].tuner is not None
        return 40.0 if fair else {"bbr": 60.0, "cubic": 20.0}[flow.congestion_control]

    found = sections("bbr-ml", made_up(campaign_of("bbr-ml"), tmp_path, shape, goodput))
    jain = {row[:2]: row[2] for row in item(found, "figure-3b").rows}
    sizes = sorted({size for _, size in jain})
    # Jain's index of rates 3 and 1: (3 + 1)² ÷ (2 × (9 + 1)).
    assert [jain["unchanged", size] for size in sizes] == [pytest.approx(0.8)] * len(sizes)
    assert [jain["BBR-ML", size] for size in sizes] == [pytest.approx(1)] * len(sizes)
    assert {gain for _, gain, *_ in item(found, "gains-fairest").rows} == {"75"}
    right = {row[:2]: row[2] for row in item(found, "table-1").rows}
    # Of the four decisions of each run, the last names the smallest buffer.
    assert right[min(sizes), "BBR-ML"].startswith("4/4")
    assert right[max(sizes), "BBR-ML"].startswith("3/4")
    numbers = dict(
        zip(
            column(item(found, "statements"), "its number"),
            column(item(found, "statements"), "our number"),
            strict=True,
        )
    )
    assert numbers[83.4] == pytest.approx((100 + 75 * (len(sizes) - 1)) / len(sizes))
    assert numbers[0.15] == pytest.approx(0.2)
    # The shipped classifier was right in two thirds of the windows that it was validated by.
    assert numbers[70] == pytest.approx(67, abs=1)


def test_bbr_test_cases_hold_for_a_textbook_flow_and_are_shown_by_criterion_and_path(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    found = sections("bbr-test-cases", made_up(campaign_of("bbr-test-cases"), tmp_path, shape))
    verdicts = {row[0]: row[1] for row in item(found, "cases").rows}
    assert len(verdicts) == 22
    assert {name for name, verdict in verdicts.items() if verdict == "holds"} >= {
        "Exiting STARTUP on bandwidth plateau",
        "Exiting DRAIN based on inflight",
        "Exiting PROBE_UP on bandwidth plateau",
        "Exiting PROBE_DOWN on inflight",
        "Entering and exiting PROBE_RTT",
    }
    # It is not application-limited, and its bandwidth never changes.
    assert verdicts["Never exiting STARTUP when application-limited with no loss"] == "does not hold"
    criteria = item(found, "criteria")
    of_startup = [row for row in criteria.rows if row[0] == "Exiting STARTUP on bandwidth plateau"]
    assert [row[1:5] for row in of_startup] == [
        ("bbr (BBRv3)", "20 Mbit/s, 100 ms", says, "holds")
        for says in (
            "max_bw is within 2 % of the bandwidth",
            "it ends after 3 rounds with less than 25 % of growth",
            "then DRAIN",
        )
    ]
    drawn = item(found, "bulk-bbr-inflight")
    assert {row[0] for row in drawn.rows} == {"window", "inflight", "BDP"}


def test_policed_transport_names_the_least_burst_that_suffices_and_who_starves_whom(
    tmp_path: Path, shape: dict[str, Any]
) -> None:
    def goodput(run: PlannedRun, flow: FlowConfig) -> float:
        if run.cell["part"].startswith("two flows"):
            return 3.0 if flow.name == "one" else 1.0
        if run.cell["part"] in ("receive queues", "Prague"):
            return 9.5
        # CUBIC needs 50 ms, BBR never has enough.
        enough = flow.congestion_control == "cubic" and run.cell["burst"] != "10 ms"
        return 9.5 if enough else 5.0

    found = sections("policed-transport", made_up(campaign_of("policed-transport"), tmp_path, shape, goodput))
    least = {row[2]: row[3:] for row in item(found, "smallest-burst").rows}
    # 50 ms at 10 Mbit/s are 62.5 kB, and 1.25 of the BDP at an RTT of 40 ms.
    assert least == {"cubic": (50.0, 62.5, 1.25), "bbr": (None, None, None)}
    used = {row[:2]: row[2] for row in item(found, "utilization-40-ms").rows}
    assert used["cubic", 50.0] == pytest.approx(95 * 1514 / 1448)
    assert set(column(item(found, "receive-queues-runs"), "limit")) == {"CoDel", "FQ-CoDel with marks"}
    assert set(column(item(found, "prague-runs"), "limit")) == {"DualPI2"}
    pairs = item(found, "pairs-runs")
    assert {"bucket", "CoDel", "DualPI2"} < set(column(pairs, "limit"))
    assert set(column(pairs, "share of the first, %")) == {75.0}
    # Jain's index of rates 3 and 1: (3 + 1)² ÷ (2 × (9 + 1)).
    assert set(column(pairs, "Jain's index")) == {0.8}
    ours = dict(
        zip(
            column(item(found, "statements"), "unit"),
            column(item(found, "statements"), "our number"),
            strict=True,
        )
    )
    assert (ours["ms"], ours["BDP"]) == (50.0, 1.25)
