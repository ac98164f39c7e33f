# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from weir.analysis.errors import PathFilesError, UnknownDetectorError
from weir.analysis.evaluate import Trial
from weir.analysis.figures.paths import path_study
from weir.analysis.jitter import jitter_of
from weir.analysis.paths.files import add_to_index, is_data_set, read_index, write_packets
from weir.analysis.paths.judging import (
    PathTrial,
    evaluate_paths,
    judge_all,
    judge_pair,
    level_of,
)
from weir.analysis.paths.pair import OfRun, PathPair, Simulated
from weir.analysis.synthetic import draw_factors, path_truth, simulate_path
from weir_tests.analysis.synthetic_run import write_run

SECONDS = 6.0
SPECIFICATION = Path(__file__).parents[4] / "docs" / "spec" / "path-pairs.md"


def pair_of(seed: int) -> PathPair:
    (pair,) = Simulated(seed, SECONDS).pairs()
    return pair


def test_a_pair_differs_from_the_next_in_its_truth_only() -> None:
    for seed in (0, 34, 1010):
        assert draw_factors(seed) == draw_factors(seed + 1)
        assert (path_truth(seed), path_truth(seed + 1)) == ("shared", "separate")
    assert len({draw_factors(seed).rate_mbps for seed in range(0, 40, 2)}) == 20


def test_seeds_from_1000_on_are_for_validation() -> None:
    assert (pair_of(10).part, pair_of(1010).part) == ("thresholds", "validation")


def test_the_same_seed_gives_the_same_packets_and_delays() -> None:
    one, again = pair_of(10), pair_of(10)
    for flow, its in zip(one.at(1e-3), again.at(1e-3), strict=True):
        np.testing.assert_array_equal(flow.sent_ns, its.sent_ns)
        np.testing.assert_array_equal(flow.lost, its.lost)


def test_the_mean_delay_is_the_jitter_asked_for_and_only_times_change() -> None:
    pair = pair_of(20)
    for flow, its, delays in zip(pair.flows, pair.at(5e-3), pair.delays, strict=True):
        sent = np.sort(flow.sent_ns)
        # Sorting keeps the sum of the times.
        assert np.mean(sent - its.sent_ns) == pytest.approx(5e6 * delays.mean(), rel=1e-6)
        assert its.lost.sum() == flow.lost.sum()
        assert its.size_bytes.sum() == flow.size_bytes.sum()
        assert its.jitter_ns > flow.jitter_ns
    # Log-normal delays of mean 1: the mean of thousands with 2 ms of memory is near it.
    assert np.mean(np.concatenate(pair.delays)) == pytest.approx(1, abs=0.15)


def test_a_policer_passes_at_most_its_rate_and_burst() -> None:
    # Both flows and everything else share one bucket: what passed in any time is at most rate × time + burst.
    seed = next(s for s in range(0, 200, 2) if not draw_factors(s).front and draw_factors(s).other_flows == 0)
    factors = replace(draw_factors(seed), loss_percent=0.0)
    flows = simulate_path(factors, "shared", seed, SECONDS)
    at = np.concatenate([flow.sent_ns[~flow.lost] for flow in flows])
    order = np.argsort(at, kind="stable")
    passed = 1514 * np.arange(1, len(at) + 1)
    surplus = passed - at[order] * 1e-9 * factors.rate_mbps * 1e6 / 8
    most = np.max(surplus - np.minimum.accumulate(surplus))
    assert most <= max(factors.rate_mbps * 1e3 / 8 * factors.burst_ms, 4 * 1514) + 1


def test_a_queue_in_front_delays_and_shows_in_the_rtt() -> None:
    seed = next(s for s in range(0, 400, 2) if draw_factors(s).front and draw_factors(s).load == "bulk")
    factors = replace(draw_factors(seed), front=1.1, control="CUBIC", loss_percent=0.0)
    behind, _ = simulate_path(factors, "shared", seed, SECONDS)
    free, _ = simulate_path(replace(factors, front=0.0), "shared", seed, SECONDS)
    assert jitter_of(behind.rtt_sent_ns, behind.rtt_ns) > jitter_of(free.rtt_sent_ns, free.rtt_ns)
    assert behind.jitter_ns > 0 == free.jitter_ns
    assert np.all(np.diff(behind.sent_ns) >= 0)


def test_an_application_that_pauses_sends_in_two_of_three_seconds() -> None:
    factors = replace(draw_factors(0), load="pauses", control="CUBIC", start_apart_s=0.0, front=0.0)
    _, second = simulate_path(factors, "shared", 0, SECONDS)
    at_s = second.sent_ns / 1e9
    # What was on its way to the host's limit may still leave after the pause begins.
    assert np.mean((at_s % 3 > 0) & (at_s % 3 < 2.02)) > 0.99


def test_a_pair_from_files_is_judged_like_the_simulated_one(tmp_path: Path) -> None:
    pair = pair_of(26)
    add_to_index([write_packets(pair, tmp_path)], tmp_path)
    (source,) = read_index(tmp_path)
    (read,) = source.pairs()
    assert (read.name, read.part, read.truth, dict(read.factors)) == (
        pair.name,
        pair.part,
        pair.truth,
        dict(pair.factors),
    )
    detectors = ("frame-memory", "bucket-level", "wehey_loss_trend")
    for one, other in zip(judge_pair(pair, detectors), judge_pair(read, detectors), strict=True):
        assert replace(one.trial, cpu_s=0.0) == replace(other.trial, cpu_s=0.0)


def test_the_line_of_the_specification_is_read(tmp_path: Path) -> None:
    (line,) = re.findall(r"^```\n(\{.*\})\n```$", SPECIFICATION.read_text(), re.MULTILINE)
    (tmp_path / "pairs.jsonl").write_text(line + "\n")
    (source,) = read_index(tmp_path)
    written = write_packets(pair_of(1000), tmp_path)
    assert set(source.line) == set(written)
    assert source.line["part"] == written["part"] == "validation"


def test_every_property_is_specified() -> None:
    text = SPECIFICATION.read_text()
    assert all(f"`{name}`" in text for name in (*pair_of(1000).factors, "queue"))


def test_wrong_lines_and_files_are_named(tmp_path: Path) -> None:
    assert not is_data_set(tmp_path)
    line = write_packets(pair_of(26), tmp_path)
    index = tmp_path / "pairs.jsonl"
    for text, message in (
        ("{", "line 1: .*one JSON object a line"),
        ('{"pair": "x"}', "line 1: .*weir_paths: 1"),
        (json.dumps({**line, "truth": "both"}), "truth 'both'; valid: shared, separate"),
        (json.dumps({**line, "pair": "../x"}), "the name of its files"),
        (json.dumps({name: its for name, its in line.items() if name != "factors"}), "no factors"),
    ):
        index.write_text(text + "\n")
        with pytest.raises(PathFilesError, match=message):
            read_index(tmp_path)
    index.write_text(json.dumps({**line, "min_rtt_ns": [0, 0]}) + "\n")
    with pytest.raises(PathFilesError, match="minimum RTT"):
        list(read_index(tmp_path)[0].pairs())
    index.write_text(json.dumps(line) + "\n")
    packets = tmp_path / "packets" / f"{line['pair']}.parquet"
    table = pq.read_table(packets)
    pq.write_table(table.drop_columns(["lost"]), packets)
    with pytest.raises(PathFilesError, match=r"path-00026\.parquet: .*lost"):
        list(read_index(tmp_path)[0].pairs())
    packets.write_bytes(b"no table")
    with pytest.raises(PathFilesError, match=r"path-00026\.parquet"):
        list(read_index(tmp_path)[0].pairs())


def test_all_processors_find_what_one_finds() -> None:
    sources = [Simulated(seed, 3.0) for seed in range(4)]
    found = [
        {
            (one.pair, one.jitter_s, replace(one.trial, cpu_s=0.0))
            for its in judge_all(sources, ("wehey_loss_trend",), (0.0, 1e-3), count)
            for one in its
        }
        for count in (1, 2)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 8


def test_an_unknown_detector_is_refused() -> None:
    with pytest.raises(UnknownDetectorError, match="valid: shared"):
        list(judge_all([Simulated(0, 3.0)], ("guess",), processes=1))


def test_a_run_gives_its_pairs_with_their_properties(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=8)
    pairs = list(OfRun(tmp_path, joined).pairs())
    assert pairs
    for pair in pairs:
        assert pair.part == "runs"
        assert pair.factors["rate_mbps"] > 0
        assert pair.factors["rtt_ratio"] >= 1
        assert pair.truth in ("shared", "separate")


def made(truth: str, verdict: str, rate: float, jitter_s: float, p: float | None = None) -> PathTrial:
    trial = Trial("d", "simulation", truth, verdict, 0.5, p, 0.1)
    return PathTrial(f"pair-{rate}", "validation", jitter_s, {"rate_mbps": rate, "control": "BBR"}, trial)


def test_errors_are_counted_by_jitter_and_by_level() -> None:
    trials = [
        made("shared", "shared", 5, 0.0),
        made("shared", "separate", 50, 0.0),
        made("separate", "cannot_tell", 50, 0.0),
        made("separate", "shared", 20, 1e-3),
    ]
    found = {(one.factor, one.level, one.jitter_s): one.evaluation for one in evaluate_paths(trials)}
    overall = found["all", "all", 0.0]
    assert (overall.trials, overall.undecided) == (3, 1)
    assert (overall.false_negatives.count, overall.false_negatives.of) == (1, 2)
    assert found["rate_mbps", "below 10", 0.0].false_negatives.count == 0
    assert found["rate_mbps", "30 or more", 0.0].false_negatives.count == 1
    assert found["rate_mbps", "10 to 30", 1e-3].false_positives.count == 1
    assert found["control", "BBR", 1e-3].trials == 1


def test_levels_are_in_order_and_named_by_their_bounds() -> None:
    assert [level_of("rate_mbps", value) for value in (9.9, 10, 29, 30)] == [
        "below 10",
        "10 to 30",
        "10 to 30",
        "30 or more",
    ]
    trials = [made("shared", "shared", rate, 0.0) for rate in (50, 20, 5)]
    levels = [one.level for one in evaluate_paths(trials) if one.factor == "rate_mbps"]
    assert levels == ["below 10", "10 to 30", "30 or more"]


def test_the_page_has_a_figure_per_error_and_per_property() -> None:
    trials = [
        made(truth, verdict, rate, jitter_s, 0.3)
        for truth, verdict in (("shared", "shared"), ("separate", "separate"), ("separate", "cannot_tell"))
        for rate in (5, 20, 50, 60)
        for jitter_s in (0.0, 1e-3)
    ]
    page = path_study(evaluate_paths(trials), "some pairs")
    names = [item.name for item in page.tables]
    for name in ("false-positives", "false-negatives", "cannot-tell", "calibration", "rate_mbps-wrong"):
        assert name in names
    figure = next(item for item in page.tables if item.name == "cannot-tell")
    assert [row[:4] for row in figure.rows] == [("d", "none", 4, 12), ("d", "1 ms", 4, 12)]
