# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import io
import json
import lzma
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from weir.analysis.evaluate import Trial, evaluate
from weir.analysis.figures import (
    DrawingError,
    Figure,
    FlowRecord,
    PairRecord,
    Records,
    Section,
    Study,
    Table,
    as_csv,
    as_svg,
    box_figure,
    browser,
    dot_figure,
    ecdf_figure,
    evaluation,
    grown_tree,
    heat_figure,
    line_figure,
    of_capture,
    of_run,
    render_study,
    share_figure,
    study,
    tree_figure,
    write_study,
)
from weir.analysis.figures.conditions import conditions
from weir.analysis.result import analyse
from weir.analysis.statistics import box, decision_tree, heat_map, share
from weir.rundir.errors import RunFileError
from weir_tests.analysis.synthetic_run import write_run
from weir_tests.analysis.tcp_capture import write_run as write_capture

HOSTILE = '</script><img src=x onerror="alert(1)">&{{7*7}}'


def flows(scenario: str, cc: str, goodput_bps: float, rate: float, rtt: float, seed: int) -> list[FlowRecord]:
    rng = np.random.default_rng(seed)
    return [
        FlowRecord(
            run=f"{scenario}-{cc}-{n // 2}",
            scenario=scenario,
            flow=f"flow{n}",
            cc=cc,
            loss_ratio=float(rng.uniform(0, 0.2)),
            throughput_bps=goodput_bps * 1.05,
            mean_delay_s=float(rng.gamma(2, 1e-3)),
            retransmission_ratio=0.1,
            min_rtt_s=rtt / 1e3,
            goodput_bps=goodput_bps,
            delays_s=rng.gamma(2, 1e-3, 50),
            factors={"rate_mbps": rate, "buffer_kb": 100.0, "rtt_ms": rtt},
        )
        for n in range(4)
    ]


@pytest.fixture(scope="module")
def made_up() -> Study:
    found: list[FlowRecord] = []
    for number, (rate, rtt) in enumerate(((40.0, 20.0), (80.0, 50.0))):
        bbr, cubic = (2e7, 1e7) if rtt == 50 else (1e7, 2e7)
        found += flows(f"{rate:g} Mbit/s", "bbr", bbr, rate, rtt, number)
        found += flows(f"{rate:g} Mbit/s", "cubic", cubic, rate, rtt, number + 10)
    pairs = [
        PairRecord("r", f"{rate} Mbit/s", detector, truth, truth, score, score, 0.1 * n + 0.05)
        for detector in ("shared", "wehey_loss_trend")
        for rate in (40, 80)
        for n in range(5)
        for truth, score in (("shared", 0.8 - n / 10), ("separate", n / 10))
    ]
    return study(Records(tuple(found), tuple(pairs), (f"a note {HOSTILE}",)), f"Made up {HOSTILE}")


def figure(of: Study, name: str) -> Figure:
    [found] = [item for item in of.tables if item.name == name]
    assert isinstance(found, Figure)
    return found


def test_a_study_has_the_figures_of_the_published_studies(made_up: Study) -> None:
    assert {item.name for item in made_up.tables} >= {
        *(
            "loss",
            "delay",
            "queueing-delay",
            "correlation",
            "throughput",
            "jain",
            "gp-gain",
            "retransmissions",
        ),
        *(
            "ks-tests",
            "map-loss",
            "decision-tree",
            "false-positives",
            "false-negatives",
            "roc",
            "calibration",
        ),
    }
    assert len({item.name for item in made_up.tables}) == len(made_up.tables)


def test_a_page_leaves_no_table_of_the_page_before_it(made_up: Study, tmp_path: Path) -> None:
    write_study(made_up, tmp_path)
    (tmp_path / "data" / "mine.csv").write_text("of the user")
    smaller = replace(made_up, sections=made_up.sections[:1])
    write_study(smaller, tmp_path)
    names = {path.stem for folder in ("data", "figures") for path in (tmp_path / folder).iterdir()}
    assert names == {item.name for item in smaller.tables} | {"mine"}


def test_flows_of_two_phases_are_not_compared_as_if_they_had_been_at_once() -> None:
    """A campaign's scenario is its cell, whose runs may have several phases."""
    found = [
        replace(flow, run="r1", phase=phase, throughput_bps=mbps * 1e6)
        for phase, rates in (("shared", (1.0, 1.0)), ("separate", (10.0, 10.0)))
        for flow, mbps in zip(flows("cell", "bbr", 1e6, 40.0, 20.0, 1), rates, strict=False)
    ]
    page = study(Records(tuple(found), (), ()), "Phases")
    assert figure(page, "jain").rows == (("Jain's index", "cell", 1.0), ("Jain's index", "cell", 1.0))
    at_once = [at[-1] for at in conditions(found) if at is not None]
    assert at_once == [2, 2, 2, 2]


def test_distributions_of_many_scenarios_are_drawn_by_congestion_control_alone() -> None:
    def series(scenarios: int) -> set[str]:
        found = [
            flow
            for number in range(scenarios)
            for cc in ("bbr", "cubic")
            for flow in flows(f"scenario {number}", cc, 1e7, 40.0, 20.0, number)
        ]
        drawn = figure(study(Records(tuple(found), (), ()), "Many"), "queueing-delay")
        return {trace["name"] for trace in drawn.traces}

    assert len(series(12)) == 24
    assert series(13) == {"bbr", "cubic"}


def test_a_legend_of_long_names_that_cannot_be_cut_takes_the_full_width() -> None:
    def drawn(*names: str) -> Figure:
        return ecdf_figure("x", "X", "", {name: [1.0, 2.0] for name in names}, unit="ms")

    cut = drawn(*(f"scenario {letter * 30} {letter}" for letter in "ab"))
    assert (cut.wide, cut.traces[0]["name"]) == (False, "scenario …aaaaaaaaaaaa a")
    same = [f"{'x' * 10}{letter}{'x' * 20}" for letter in "ab"]
    assert (drawn(*same).wide, [trace["name"] for trace in drawn(*same).traces]) == (True, same)


def test_a_map_of_gains_holds_the_other_conditions_fixed() -> None:
    found: list[FlowRecord] = []
    for rate, rtt, buffer_kb, bbr in (
        *((rate, rtt, 100.0, rate * rtt * 1e4) for rate in (10.0, 20.0, 50.0) for rtt in (20.0, 50.0)),
        *((10.0, rtt, 1000.0, 1e9) for rtt in (20.0, 50.0)),
    ):
        for cc, goodput in (("bbr", bbr), ("cubic", 1e6)):
            its = flows(f"{rate:g} {rtt:g} {buffer_kb:g}", cc, goodput, rate, rtt, 1)
            found += [replace(flow, factors={**flow.factors, "buffer_kb": buffer_kb}) for flow in its]
    # Eight flows at once under a condition that others met with two: another condition.
    crowd = [replace(flow, run="crowd", scenario="crowd") for _ in range(2) for flow in found[:4]]
    page = study(Records(tuple(found + crowd), (), ()), "Gains")
    gains = figure(page, "gp-gain")
    assert gains.caption.endswith("burst or queue 100 kB, random loss 0 %, measured flows 2 at once.")
    assert gains.traces[0]["z"] == [
        [pytest.approx(rate * rtt - 100) for rate in (10, 20, 50)] for rtt in (20, 50)
    ]
    # Rate and buffer have two of four cells with the second buffer at one rate: 4 of 6.
    assert {item.name for item in page.tables if "gp-gain" in item.name} == {
        "gp-gain",
        "gp-gain-rate-buffer",
        "gp-gain-rtt-buffer",
    }


def test_a_map_of_gains_over_one_condition_has_it_from_left_to_right() -> None:
    found: list[FlowRecord] = []
    for buffer_kb in (10.0, 20.0, 40.0):
        for cc, goodput in (("bbr", 2e7), ("cubic", 1e7)):
            its = flows(f"{buffer_kb:g} kB", cc, goodput, 40.0, 20.0, 1)
            found += [replace(flow, factors={**flow.factors, "buffer_kb": buffer_kb}) for flow in its]
    page = study(Records(tuple(found), (), ()), "Buffers")
    [trace] = figure(page, "gp-gain-buffer-rate").traces
    assert (trace["x"], trace["y"]) == (["10", "20", "40"], ["40"])


def test_medians_of_many_scenarios_are_a_table() -> None:
    def medians(scenarios: int) -> dict[str, Table]:
        found = [
            flow
            for number in range(scenarios)
            for cc in ("bbr", "cubic")
            for flow in flows(f"scenario {number}", cc, 1e7, 40.0, 20.0, number)
        ]
        page = study(Records(tuple(found), (), ()), "Many")
        return {item.name: item for item in page.tables if item.name.startswith(("map-", "medians"))}

    assert set(medians(48)) == {"map-loss", "map-delay", "map-retransmissions", "map-throughput"}
    [table] = medians(49).values()
    assert len(table.rows) == 98
    assert table.rows[0][:3] == ("scenario 0", "bbr", 4)
    assert table.columns[-1] == "throughput, Mbit/s"
    assert table.rows[0][-1] == pytest.approx(10.5)


def test_boxes_keep_the_order_of_the_scenarios_whatever_the_congestion_control() -> None:
    found = [
        *flows("first", "cubic", 1e7, 40.0, 20.0, 1),
        *flows("second", "bbr", 1e7, 40.0, 20.0, 2),
        *flows("third", "cubic", 1e7, 40.0, 20.0, 3),
    ]
    drawn = figure(study(Records(tuple(found), (), ()), "Order"), "loss")
    assert drawn.layout["xaxis"]["tickvals"] == ["first", "second", "third"]


def test_the_gain_is_of_medians_under_one_condition(made_up: Study) -> None:
    [trace] = figure(made_up, "gp-gain").traces
    assert (trace["x"], trace["y"]) == (["40", "80"], ["20", "50"])
    assert trace["z"] == [[pytest.approx(-50), None], [None, pytest.approx(100)]]


def test_buffers_and_random_loss_are_conditions_too() -> None:
    found: list[FlowRecord] = []
    for seed, (buffer_kb, loss, bbr) in enumerate(((100.0, 0.0, 2e7), (100.0, 1.0, 3e7), (1000.0, 0.0, 5e6))):
        for cc, goodput in (("bbr", bbr), ("cubic", 1e7)):
            its = flows(f"{buffer_kb} kB, {loss} %", cc, goodput, 40.0, 20.0, seed)
            more = {"buffer_kb": buffer_kb, "random_loss_percent": loss}
            found += [replace(flow, factors={**flow.factors, **more}) for flow in its]
    page = study(Records(tuple(found), (), ()), "Buffers")
    # Rate and RTT do not vary, so there is one map, and no condition is merged with another.
    assert [item.name for item in page.tables if "gp-gain" in item.name] == ["gp-gain-buffer-random-loss"]
    [trace] = figure(page, "gp-gain-buffer-random-loss").traces
    assert (trace["x"], trace["y"]) == (["100", "1000"], ["0", "1"])
    assert trace["z"] == [[pytest.approx(100), pytest.approx(-50)], [pytest.approx(200), None]]
    assert {row[1] for row in figure(page, "decision-tree").rows if row[1]} == {"burst or queue, kB"}


def test_a_flows_factors_are_those_of_its_policer_or_else_of_its_receivers_queue(tmp_path: Path) -> None:
    analyse(tmp_path, write_run(tmp_path, seconds=8))
    path = tmp_path / "result.json"
    result = json.loads(path.read_text())
    assert all("burst" not in key for key in of_run(tmp_path).flows[0].factors)
    assert of_run(tmp_path).flows[0].factors["rate_mbps"] == 40
    link = {"delay_s": 0.01, "rate_bps": 10_000_000, "queue_bytes": 50_000, "loss": 0.02}
    result["links"] = [{"host": flow["dst_host"], **link} for flow in result["flows"][:1]]
    result["flows"] = [{**flow, "policer": None, "min_rtt_s": 0.02} for flow in result["flows"]]
    path.write_text(json.dumps(result))
    factors = {"rate_mbps": 10.0, "buffer_kb": 50.0, "rtt_ms": 20.0, "random_loss_percent": 2.0}
    assert of_run(tmp_path).flows[0].factors == factors


def test_the_tree_finds_which_condition_favours_bbr(made_up: Study) -> None:
    rows = figure(made_up, "decision-tree").rows
    assert rows[0][1] in ("bottleneck, Mbit/s", "RTT, ms")
    assert {row[5] for row in rows if row[1] is None} == {"bbr", "cubic"}


def test_boxes_are_drawn_from_the_statistics_and_their_values_are_in_the_table() -> None:
    values = {"bbr": {"a": [1.0, 2.0, 3.0, 40.0, None], "b": [2.0]}, "cubic": {"a": [5.0, 6.0]}}
    found = box_figure("x", "X", "", values, unit="ms")
    first = box([1.0, 2.0, 3.0, 40.0])
    assert first is not None
    assert [trace["name"] for trace in found.traces] == ["bbr", "cubic"]
    assert (found.traces[0]["median"][0], found.traces[0]["upperfence"][0]) == (
        first.median,
        first.high_whisker,
    )
    assert found.rows == (
        ("bbr", "a", 1.0),
        ("bbr", "a", 2.0),
        ("bbr", "a", 3.0),
        ("bbr", "a", 40.0),
        ("bbr", "b", 2.0),
        ("cubic", "a", 5.0),
        ("cubic", "a", 6.0),
    )


def test_boxes_of_many_scenarios_take_the_full_width() -> None:
    def drawn(scenarios: int) -> Figure:
        return box_figure("b", "B", "", {"a": {f"scenario {n}": [1.0] for n in range(scenarios)}}, unit="s")

    assert [drawn(count).wide for count in (12, 13)] == [False, True]
    # Upright names take nothing from the height of the boxes.
    assert drawn(25).layout["xaxis"]["tickangle"] == 90
    assert drawn(25).height - drawn(24).height == 260 + 6 * len("scenario 24") - 400
    page = render_study(Study("s", "", (Section("a", "A", "", (drawn(12), drawn(13))),)))
    assert re.findall(r"<figure.*>", page) == ["<figure>", '<figure class="wide">']


def test_lines_start_at_zero_and_published_numbers_are_dotted_and_in_the_table() -> None:
    found = line_figure(
        "x", "X", "", {"ours": [(1, 5), (2, 6)]}, x="n", y="ms", marks={"theirs": [(1, 7), (2, 7)]}
    )
    assert [trace["line"]["dash"] for trace in found.traces] == ["solid", "dot"]
    assert found.rows == (("ours", 1, 5), ("ours", 2, 6), ("theirs", 1, 7), ("theirs", 2, 7))
    assert found.layout["yaxis"]["rangemode"] == "tozero"


def test_dots_keep_the_order_of_their_categories_from_the_top() -> None:
    found = dot_figure("x", "X", "", {"a": {"one": 1.0, "two": 2.0}, "b": {"two": 3.0}}, unit="ms", log=True)
    assert found.layout["yaxis"]["categoryarray"] == ["two", "one"]
    assert found.rows == (("a", "one", 1.0), ("a", "two", 2.0), ("b", "two", 3.0))
    assert [trace["x"] for trace in found.traces] == [[1.0, 2.0], [3.0]]


def test_intervals_are_drawn_to_the_exact_ends() -> None:
    its = share(3, 40)
    [trace] = share_figure("s", "S", "", {"d": {"one": its, "none": share(0, 0)}}).traces
    assert trace["x"] == [7.5]
    assert trace["x"][0] + trace["error_x"]["array"][0] == pytest.approx(100 * its.high)
    assert trace["x"][0] - trace["error_x"]["arrayminus"][0] == pytest.approx(100 * its.low)


def test_long_names_are_cut_in_the_middle_unless_they_would_be_the_same() -> None:
    one, other = f"begin-{'x' * 40}-end-1", f"begin-{'x' * 40}-end-2"
    axis = box_figure("x", "X", "", {"": {one: [1.0], other: [2.0]}}, unit="").layout["xaxis"]
    assert axis["tickvals"] == [one, other]
    assert axis["ticktext"] == ["begin-xxx…xxxxxxxx-end-1", "begin-xxx…xxxxxxxx-end-2"]
    same = [f"begin{letter * 40}-end" for letter in "x"] + [f"begin{'x' * 41}-end"]
    axis = box_figure("x", "X", "", {"": {name: [1.0] for name in same}}, unit="").layout["xaxis"]
    assert axis["ticktext"] == same


def test_of_many_scenarios_as_many_are_named_as_there_is_space_for() -> None:
    names = [f"cell {number}" for number in range(287)]
    found = box_figure("x", "X", "", {"": {name: [1.0] for name in names}}, unit="")
    axis = found.layout["xaxis"]
    assert axis["tickvals"] == axis["ticktext"] == names[::6]
    assert axis["categoryarray"] == found.traces[0]["x"] == names
    assert found.wide


def test_a_heat_map_writes_its_values_and_leaves_holes() -> None:
    grid = heat_map([(1.0, "a", 2.0), (2.0, "b", None), (1.0, "b", 30712.3)])
    [trace] = heat_figure("h", "H", "", grid, x="x", y="y", value="v").traces
    assert trace["z"] == [[2.0, None], [30712.3, None]]
    assert trace["text"] == [["2", ""], ["30,712", ""]]


def test_no_two_nodes_of_a_tree_are_drawn_at_the_same_position() -> None:
    rng = np.random.default_rng(1)
    rows = [{"x": float(x), "y": float(y)} for x, y in rng.uniform(0, 1, (80, 2))]
    tree = decision_tree(rows, ["abcd"[2 * (row["x"] > 0.5) + (row["y"] > 0.5)] for row in rows])
    drawn = tree_figure("t", "T", "", tree)
    positions = {
        (round(x, 6), round(y, 6))
        for trace in drawn.traces[1:]
        for x, y in zip(trace["x"], trace["y"], strict=True)
    }
    assert len(positions) == len(tree.nodes)


def test_the_caption_of_a_tree_says_which_branch_is_which_and_what_its_numbers_count() -> None:
    rows = [{"buffer": size} for size in (0.1, 0.2, 1.0, 4.0, 8.0)]
    drawn = grown_tree("t", "T", rows, ["bbr", "bbr", "bbr", "cubic", "cubic"])
    assert drawn.caption.endswith("; to the left where the condition holds; numbers: bbr / cubic")
    left_of_root = next(row for row in drawn.rows if row[0] == drawn.rows[0][3])
    assert left_of_root[5] == "bbr"  # the smaller buffers
    assert any(one["text"].endswith("3 / 2") for one in drawn.layout["annotations"])  # the root


def test_the_csv_has_every_row_and_empty_cells_for_missing_values(made_up: Study) -> None:
    for item in made_up.tables:
        read = list(csv.reader(io.StringIO(as_csv(item))))
        assert tuple(read[0]) == item.columns
        assert len(read) == len(item.rows) + 1
    gain = list(csv.reader(io.StringIO(as_csv(figure(made_up, "gp-gain")))))
    assert gain[1] == ["40.0", "20.0", "-50.0", "1"]
    assert gain[2] == ["80.0", "20.0", "", "0"]


def test_names_between_backquotes_are_code_on_the_page_and_nothing_else_becomes_markup() -> None:
    table = Table("t", "T", f"`shared` of {HOSTILE}", ("a",), ((1,),))
    page = render_study(Study("s", "", (Section("a", "A", "by `make x`", (table,)),), ("a note on `weir`",)))
    assert "`" not in page[: page.index("<script")]
    for name in ("shared", "make x", "weir"):
        assert f"<code>{name}</code>" in page
    assert HOSTILE not in page


def test_the_page_loads_nothing_and_no_name_becomes_script(made_up: Study) -> None:
    source = render_study(made_up)
    assert "default-src 'none'" in source
    assert HOSTILE not in source
    head = source[: source.index('<script type="application/json"')]
    assert not re.findall(r"<\w+[^>]*\s(?:src|srcset)\s*=", head)
    ids = set(re.findall(r'id="([^"]+)"', head))
    local = re.findall(r'href="#([^"]+)"', head)
    assert len(local) == len(made_up.sections) + 1
    assert set(local) <= ids
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', source, re.DOTALL)
    assert data is not None
    assert {f"figure-{name}" for name in json.loads(data[1])} <= ids


def test_every_link_of_the_page_is_a_file_and_every_drawing_is_svg(made_up: Study, tmp_path: Path) -> None:
    if browser.chromium() is None:
        pytest.skip("chromium: not on PATH; sudo apt-get install chromium")
    page, warnings = write_study(made_up, tmp_path)
    assert warnings == ()
    links = re.findall(r'href="((?:data|figures)/[^"]+)"', page.read_text())
    assert len(links) > 20
    assert all((tmp_path / link).is_file() for link in links)
    for path in (tmp_path / "figures").glob("*.svg"):
        drawing = ElementTree.fromstring(path.read_text())  # of our own making
        assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(drawing.iter("{http://www.w3.org/2000/svg}path"))) > 2
    boxes = ElementTree.fromstring((tmp_path / "figures" / "loss.svg").read_text())
    assert sum(element.get("class") == "box" for element in boxes.iter()) == 4


def test_without_chromium_page_and_csv_are_written_with_a_warning(
    made_up: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "CHROMIUM", ("no-such-program",))
    with pytest.raises(DrawingError, match="not installed"):
        as_svg(made_up)
    page, [warning] = write_study(made_up, tmp_path)
    assert warning.startswith("no SVG files: they are drawn by Chromium: Chromium is not installed")
    assert "figures/" not in page.read_text().split('<script type="application/json"')[0].split("<footer>")[0]
    assert (tmp_path / "data" / "loss.csv").is_file()


def test_a_run_gives_its_measured_flows_and_its_pairs(tmp_path: Path) -> None:
    result = analyse(tmp_path, write_run(tmp_path, seconds=8))
    found = of_run(tmp_path)
    measured = [flow for flow in result.flows if flow.measured]
    assert [flow.loss_ratio for flow in found.flows] == [flow.loss_ratio for flow in measured]
    assert found.flows[0].scenario == f"{result.name}: {measured[0].phase}"
    assert found.flows[0].factors["rtt_ms"] > 0
    assert len(found.pairs) == len(result.pairs)
    assert len(found.flows[0].delays_s)
    with pytest.raises(RunFileError, match="valid: a run directory"):
        of_run(tmp_path / "none")


def test_a_compressed_capture_gives_its_flows(tmp_path: Path) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_capture(tmp_path)
    packed = tmp_path / "some.pcap.xz"
    packed.write_bytes(lzma.compress((tmp_path / "pcap" / "server.pcap").read_bytes()))
    found = of_capture(packed)
    assert [flow.scenario for flow in found.flows] == ["some"] * len(found.flows)
    assert found.flows
    assert all(flow.loss_ratio is not None and 0 <= flow.loss_ratio < 1 for flow in found.flows)
    rates = figure(study(found, "some"), "delivery-rate")
    for flow in found.flows:
        its = [value for series, value, _part in rates.rows if series == flow.scenario]
        assert float(np.median(flow.delivery_rates_bps)) / 1e6 in [pytest.approx(value) for value in its]


def test_an_evaluation_has_curves_calibration_and_cost() -> None:
    trials = [
        Trial("d", "s", truth, truth, score + n / 100, (n + 0.5) / 10, 0.25)
        for n in range(10)
        for truth, score in (("shared", 0.5), ("separate", 0.45))
    ]
    found = evaluation(evaluate(trials), "ten of each")
    names = [item.name for item in found.tables]
    assert names == ["false-positives", "false-negatives", "roc", "calibration", "cost", "verdicts"]
    [cost] = [item for item in found.tables if item.name == "cost"]
    assert cost.rows == (("d", 20, 0.25, 0.25),)
    calibration = figure(found, "calibration")
    assert [row[1:] for row in calibration.rows] == [
        (pytest.approx((n + 0.5) / 10), pytest.approx((n + 1) / 10)) for n in range(10)
    ]


def test_of_equal_medians_none_is_called_larger() -> None:
    flows = [
        FlowRecord(f"r{i}", "s", "f", cc, 0.0, 1e6, 0.01, 0.0, 0.02)
        for i, cc in enumerate(["bbr", "cubic"] * 3)
    ]
    flows[0] = replace(flows[0], throughput_bps=2e6)
    flows[2] = replace(flows[2], throughput_bps=2e6)
    (table,) = (table for table in study(Records(tuple(flows), ()), "s").tables if table.name == "ks-tests")
    larger = {row[0]: row[-1] for row in table.rows}
    assert larger == {"loss": None, "mean delay": None, "throughput": "s, bbr"}
