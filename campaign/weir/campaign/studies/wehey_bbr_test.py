# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.analysis.figures import Section, Table
from weir.analysis.series import PER_RTT, SCHEMA
from weir.campaign.outcome import Outcome
from weir.campaign.studies.beside import compare_counts
from weir.campaign.studies.wehey_bbr import PUBLISHED, SCENARIOS, best_of, sections, verdict_of
from weir.rundir.manifest import Manifest, Scheduling


def rule(verdict: str, significant: int, rho: float) -> dict[str, Any]:
    sizes = [{"rho": rho - n / 1000, "p": 0.01 if n < significant else 0.5, "used": True} for n in range(40)]
    return {
        "detector": "wehey_loss_trend",
        "verdict": verdict,
        "detail": {"significant": significant, "sizes_used": 40, "sizes": sizes},
    }


def outcome(
    policer: str,
    scenario: str,
    verdicts: dict[str, Any],
    *,
    rate: str = "40 Mbit/s",
    valid: bool = True,
    late_ms: float = 1.0,
) -> Outcome:
    truth = {"common": "shared", "non-common": "separate"}[policer]
    pairs = [
        verdicts["rule"] | {"truth": truth},
        {"detector": "shared", "verdict": verdicts["ours"], "truth": truth, "detail": {}},
    ]
    flows = [{"measured": True, "loss_ratio": loss, "mean_delay_s": 0.01} for loss in (0.2, 0.24)]
    return Outcome(
        key="k",
        path=Path("k"),
        cell={"rate": rate, "scenario": scenario, "policer": policer},
        repeat=0,
        manifest=Manifest(schema=1, name="x", run_id="x", scheduling=Scheduling(p99_s=late_ms / 1e3)),
        result={"pairs": pairs, "flows": flows, "links": [{"host": "client", "queue_bytes": None}]},
        invalid_reasons=() if valid else ("busy",),
    )


def table(found: tuple[Section, ...], name: str) -> Table:
    (item,) = [item for section in found for item in section.items if item.name == name]
    return item


BBR = "BBR with BBR"
RUNS = [
    # 30 of 40 sizes: correlated by the 50 % rule, not by the 95 % rule.
    *[outcome("common", BBR, {"rule": rule("shared", 30, 0.6), "ours": "shared"})] * 3,
    outcome("common", BBR, {"rule": rule("separate", 10, 0.6), "ours": "shared"}),
    outcome("common", BBR, {"rule": rule("cannot_tell", 0, 0.0), "ours": "cannot_tell"}),
    outcome("common", BBR, {"rule": rule("separate", 0, 0.6), "ours": "separate"}, rate="100 Mbit/s"),
    outcome("non-common", BBR, {"rule": rule("shared", 39, 0.6), "ours": "separate"}),
    outcome("non-common", BBR, {"rule": rule("separate", 2, 0.1), "ours": "separate"}),
    outcome("non-common", BBR, {"rule": rule("shared", 39, 0.9), "ours": "shared"}, valid=False, late_ms=9),
]


def test_errors_are_counted_by_rule_scenario_and_rate_over_valid_runs_with_enough_loss() -> None:
    found = sections(RUNS)
    rows = {tuple(row[:3]): row for row in table(found, "table-2").rows}
    columns = table(found, "table-2").columns
    ours, weirs = columns.index("ours"), columns.index("weir's shared")
    assert str(rows[BBR, "40 to 80 Mbit/s", "50 %"][ours]).startswith("1/4 ")
    assert str(rows[BBR, "40 to 80 Mbit/s", "95 %"][ours]).startswith("4/4 ")
    assert str(rows[BBR, "100 Mbit/s", "50 %"][ours]).startswith("1/1 ")
    assert str(rows[BBR, "40 to 80 Mbit/s", "50 %"][weirs]).startswith("0/4 ")
    rows = {tuple(row[:3]): row for row in table(found, "table-3").rows}
    assert str(rows[BBR, "40 to 80 Mbit/s", "50 %"][ours]).startswith("1/2 ")
    assert str(rows[BBR, "40 to 80 Mbit/s", "95 %"][ours]).startswith("1/2 ")


def test_errors_are_grouped_by_scheduling_lateness() -> None:
    late = [
        outcome("common", BBR, {"rule": rule("separate", 3, 0.6), "ours": "shared"}, late_ms=2.5)
        for _ in range(8)
    ]
    rows = table(sections([*late, *RUNS]), "verdicts-by-lateness").rows
    assert [row[:3] for row in rows] == [
        ("valid, the half less late", 8, "1.00 to 1.00"),
        ("valid, the other half", 8, "2.50 to 2.50"),
        ("invalid", 1, "9.00 to 9.00"),
    ]
    assert [[str(cell).split(" ")[0] for cell in row[3:]] for row in rows] == [
        ["2/5", "1/2", "1/5", "0/2"],
        ["8/8", "None", "0/8", "None"],
        ["None", "1/1", "None", "1/1"],
    ]
    assert not [s for s in sections([]) if s.anchor == "lateness" and s.items]


def test_every_published_count_is_in_its_table_even_without_runs() -> None:
    found = sections([])
    for name, kind in (("table-2", "false_negatives"), ("table-3", "false_positives")):
        cells = [str(row[3]).split(" ")[0] for row in table(found, name).rows]
        for rule_name in ("50 %", "95 %", "50 %, extra rate", "95 %, extra rate"):
            for count, of in PUBLISHED[kind][rule_name].values():
                assert f"{count}/{of}" in cells
        assert len(cells) == 2 * (4 + 2)
    assert len(table(found, "table-4").rows) == 2 * (4 + 2)
    assert found[0].text == "No valid run yet, so there is nothing to compare."


def test_the_published_counts_add_up_to_the_percentages_in_the_text() -> None:
    def percent(kind: str, rule_name: str, cc: str) -> float:
        counts = [PUBLISHED[kind][rule_name][scenario] for scenario in SCENARIOS if scenario.startswith(cc)]
        return 100 * sum(count for count, _ in counts) / sum(of for _, of in counts)

    # Section 5.2, in whole percent: 10 (BBR) and 36 (CUBIC) with 50 % of intervals, 45 (CUBIC) with 95 %.
    assert percent("false_negatives", "50 %", "BBR") == pytest.approx(10, abs=0.5)
    assert percent("false_negatives", "50 %", "CUBIC") == pytest.approx(36, abs=0.5)
    assert percent("false_negatives", "95 %", "CUBIC") == pytest.approx(45, abs=0.5)
    assert percent("false_positives", "50 %", "BBR") == pytest.approx(15, abs=0.6)
    assert percent("false_positives", "50 %", "CUBIC") == pytest.approx(4, abs=0.5)
    # Text and table differ here; the remark in the file says so.
    assert percent("false_negatives", "95 %", "BBR") == pytest.approx(32.5)
    assert "33 %" in PUBLISHED["remark"]


def test_the_strict_rule_requires_more_than_95_percent_of_the_sizes() -> None:
    assert verdict_of(rule("shared", 38, 0.5), strict=True) == "separate"
    assert verdict_of(rule("shared", 39, 0.5), strict=True) == "shared"
    assert verdict_of(rule("shared", 21, 0.5), strict=False) == "shared"
    assert verdict_of(rule("cannot_tell", 0, 0.5), strict=True) == "cannot_tell"


def test_the_best_coefficient_is_the_highest_significant_one() -> None:
    pair = rule("shared", 0, 0.6)
    assert best_of(pair) == pytest.approx(0.6)
    pair["detail"]["sizes"][7]["p"] = 0.04
    assert best_of(pair) == pytest.approx(0.593)


def test_figures_and_summary_follow_from_the_runs() -> None:
    found = sections(RUNS)
    assert "The published rule errs in 2 of 5 common and 1 of 2 non-common pairs" in found[0].text
    assert "weir's own detector in 1 of 5 and 0 of 2; it cannot tell in 1." in found[0].text
    assert "The declared policer is the truth in 16 of 16 verdicts" in found[0].text
    assert (
        "The median loss of BBR with BBR at 40 Mbit/s is 22.0 % (22.0 to 22.0), published 22 %."
        in found[0].text
    )
    assert "(tables 2 to 4) that 8 runs can be held against, " in found[0].text
    all_wrong = [outcome("common", BBR, {"rule": rule("separate", 0, 0.1), "ours": "shared"})] * 20
    sentence = (
        "False negatives, common policer (table 2), BBR with BBR, 40 to 80 Mbit/s, 50 %: more than published."
    )
    assert sentence in sections(all_wrong)[0].text
    assert sentence not in found[0].text
    cubic = outcome("common", "CUBIC with BBR", {"rule": rule("shared", 30, 0.6), "ours": "shared"})
    cubic.result["flows"][1]["loss_ratio"] = 0.23
    in_words = sections([*RUNS, cubic])[0].text
    assert "median loss is above CUBIC's in 1 of 1 cases, its median delay below in 0 of 1" in in_words
    assert "are token buckets without the report's queue of one burst" in in_words
    queued = replace(cubic, result=cubic.result | {"links": [{"host": "client", "queue_bytes": 100_000}]})
    assert "are token buckets with the report's queue of one burst" in sections([queued])[0].text
    loss = table(found, "figure-2")
    lower = [row[2] for row in loss.rows if row[0] == "lower of the two"]
    assert lower == [pytest.approx(20)] * 6
    names = {item.name for section in found for item in section.items}
    assert {"figure-2", "figure-3", "figure-4", "figure-5", "medians", "detectors"} <= names


def test_figure_1_shows_the_middle_ten_seconds_of_one_run_of_each_kind(tmp_path: Path) -> None:
    shown = []
    for scenario, rate_mbps in (("BBR with BBR", 20.0), ("CUBIC with CUBIC", 15.0)):
        its = outcome(
            "common", scenario, {"rule": rule("shared", 1, 0.1), "ours": "shared"}, rate="80 Mbit/s"
        )
        path = tmp_path / scenario
        path.mkdir()
        its.result["flows"][0]["id"] = "main/measured1"
        rows = [
            {
                "phase": "main",
                "subject": subject,
                "kind": PER_RTT,
                "time_s": 0.02 * n,
                "value": rate_mbps * 1e6,
            }
            for subject in ("main/measured1", "main/measured2")
            for n in range(2000)
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), path / "series.parquet")
        shown.append(replace(its, path=path))
    rows = table(sections([*RUNS, *shown]), "figure-1").rows
    by_kind = {name: [row[1:] for row in rows if row[0] == name] for name in ("BBR", "CUBIC")}
    # Ten of forty seconds, at 20 ms each.
    for name, rate_mbps in (("BBR", 20.0), ("CUBIC", 15.0)):
        times, rates = zip(*by_kind[name], strict=True)
        assert (len(times), min(times), max(times)) == (
            500,
            pytest.approx(15, abs=0.02),
            pytest.approx(25, abs=0.02),
        )
        assert set(rates) == {rate_mbps}
    assert len(rows) == 1000


def test_a_difference_between_counts_is_shown_only_if_significant() -> None:
    assert compare_counts(3, 40, (4, 40)).verdict == "no difference shown"
    assert compare_counts(30, 40, (4, 40)).verdict == "more than published"
    assert compare_counts(0, 40, (17, 40)).verdict == "fewer than published"
    assert compare_counts(0, 0, (17, 40)).verdict == "not run"
    assert compare_counts(1, 2, None).verdict == "nothing published"
    # 3 of 4 against 1 of 4: Fisher's exact test by hand, 2 × (16 + 1) ÷ 70.
    assert compare_counts(3, 4, (1, 4)).p == pytest.approx(34 / 70)
    assert compare_counts(3, 4, (1, 4)).difference == pytest.approx(50)
