# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from weir.campaign.load import MAX_RUNS, Campaign, Overrides, load_campaign, parse_campaign, run_key, run_seed
from weir.controlplane.config import ConfigError, parse_experiment
from weir.topo.script import Block, Script

TEXT = """
name: small
seed: 7
matrix:
  rate: [10 Mbit/s, 20 Mbit/s]
  scenario:
    alike: {cc: cubic, other: $cc}
    mixed: {cc: bbr, other: cubic}
repeats: 2
variables: {duration: 3 s}
quick: {matrix: {rate: [20 Mbit/s]}, repeats: 1, variables: {duration: 1 s}}
hosts: {client: {}, server: {}}
flows:
  - {name: one, from: server, to: client, congestion_control: $cc, duration: $duration}
  - {name: two, from: server, to: client, congestion_control: $other, duration: $duration}
policers:
  - {name: p, rate: $rate, burst: 20 ms, match: [{to: client}]}
"""


def lines(text: str, *, quick: bool = False) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as error:
        parse_campaign(text, "c.yaml", quick=quick)
    return error.value.lines


def by_key(campaign: Campaign) -> dict[str, tuple[int, str]]:
    return {run.key: (run.seed, run.digest) for run in campaign.runs}


def test_a_matrix_becomes_every_combination_repeated() -> None:
    campaign = parse_campaign(TEXT)
    assert len(campaign.runs) == len({run.key for run in campaign.runs}) == 2 * 2 * 2
    first = campaign.runs[0]
    assert first.cell == {"rate": "10 Mbit/s", "scenario": "alike"}
    assert [flow.congestion_control for flow in first.experiment.flows] == ["cubic", "cubic"]
    last = campaign.runs[-1].experiment
    assert last.policers is not None
    assert last.policers[0].rate == 20_000_000
    assert [flow.congestion_control for flow in last.flows] == ["bbr", "cubic"]
    assert first.traffic_s == 3.0


def test_kernels_are_an_axis_that_changes_no_seed() -> None:
    text = TEXT.replace("matrix:\n", "time: virtual\nmatrix:\n  kernel: [6.10, bbr3]\n")
    campaign = parse_campaign(text)
    assert campaign.axes["kernel"] == ("6.10", "bbr3")
    seeds: dict[str, list[int]] = {}
    for run in campaign.runs:
        assert run.experiment.kernel == run.cell["kernel"]
        assert run.key.startswith(run.cell["kernel"])
        seeds.setdefault(run.cell["kernel"], []).append(run.seed)
    assert seeds["6.10"] == seeds["bbr3"] == [run.seed for run in parse_campaign(TEXT).runs]
    assert len({run.digest for run in campaign.runs}) == 16


def test_the_command_lines_time_and_kernels_make_separate_campaigns_of_the_same_seeds() -> None:
    real = parse_campaign(TEXT)
    virtual = parse_campaign(TEXT, overrides=Overrides(time="virtual", kernels=("6.10",)))
    assert (real.name, virtual.name) == ("small", "small-virtual")
    assert [run.seed for run in virtual.runs] == [run.seed for run in real.runs]
    assert [run.key for run in virtual.runs] == [run.key for run in real.runs]
    assert {(run.experiment.time, run.experiment.kernel) for run in virtual.runs} == {("virtual", "6.10")}
    assert not {run.digest for run in virtual.runs} & {run.digest for run in real.runs}
    several = parse_campaign(TEXT, overrides=Overrides(time="virtual", kernels=("6.10", "bbr3")))
    assert several.axes["kernel"] == ("6.10", "bbr3")
    assert parse_campaign(TEXT, overrides=Overrides(kernels=("6.10",))).name == "small-virtual"
    in_file = parse_campaign(TEXT + "time: virtual\n", overrides=Overrides(time="virtual"))
    assert in_file.name == "small"


def test_in_real_time_a_file_has_no_kernel() -> None:
    text = TEXT + "time: virtual\nkernel: bbr3\n"
    campaign = parse_campaign(text, overrides=Overrides(time="real"))
    assert campaign.name == "small-real"
    assert {(run.experiment.time, run.experiment.kernel) for run in campaign.runs} == {("real", None)}
    assert [run.seed for run in campaign.runs] == [run.seed for run in parse_campaign(text).runs]


def test_kernels_of_the_command_line_do_not_replace_an_axis_of_the_file() -> None:
    text = TEXT.replace("matrix:\n", "time: virtual\nmatrix:\n  kernel: [6.10, bbr3]\n")
    with pytest.raises(ConfigError, match="--kernel: the file has an axis kernel; valid: --only kernel="):
        parse_campaign(text, overrides=Overrides(time="virtual", kernels=("bbr3",)))


def test_every_run_is_a_complete_experiment_file_with_its_seed() -> None:
    for run in parse_campaign(TEXT).runs:
        assert parse_experiment(run.text) == run.experiment
        assert run.experiment.seed == run.seed


def test_seeds_differ_and_do_not_change_when_values_and_repeats_are_added() -> None:
    small = by_key(parse_campaign(TEXT))
    grown_text = TEXT.replace("[10 Mbit/s,", "[5 Mbit/s, 10 Mbit/s,").replace("repeats: 2", "repeats: 5")
    grown = by_key(parse_campaign(grown_text))
    assert len(grown) == 3 * 2 * 5
    assert small.items() <= grown.items()
    assert len({seed for seed, _ in grown.values()}) == len(grown)


def test_the_seed_of_a_run_depends_on_campaign_cell_and_repeat_and_not_on_the_order_of_axes() -> None:
    cell = {"rate": "1", "scenario": "x"}
    seed = run_seed(1, cell, 0)
    assert seed == run_seed(1, dict(reversed(cell.items())), 0)
    assert 0 <= seed < 2**63
    others = {run_seed(2, cell, 0), run_seed(1, cell, 1), run_seed(1, cell | {"rate": "2"}, 0)}
    assert len(others | {seed}) == 4
    # Published runs can be repeated only if this never changes.
    # printf '[1, [["rate", "40 Mbit/s"]], 0]' | sha256sum | cut -c1-16, halved
    assert run_seed(1, {"rate": "40 Mbit/s"}, 0) == 2_433_307_187_016_852_519


def test_labels_with_the_same_readable_part_have_different_directories() -> None:
    assert run_key({"a": "1/2"}, 0) != run_key({"a": "1-2"}, 0)
    assert run_key({}, 2) == "run_4f53cda1_r003"


def test_the_quick_grid_is_a_subset_of_the_full_grid_with_a_separate_name() -> None:
    quick = parse_campaign(TEXT, quick=True)
    assert (quick.name, len(quick.runs)) == ("small-quick", 2)
    assert {run.cell["rate"] for run in quick.runs} == {"20 Mbit/s"}
    assert quick.runs[0].traffic_s == 1.0


def test_the_digest_of_a_run_covers_every_value_but_not_the_description() -> None:
    one = by_key(parse_campaign(TEXT))
    described = by_key(parse_campaign(TEXT.replace("seed: 7", "seed: 7\ndescription: words")))
    changed = by_key(parse_campaign(TEXT.replace("burst: 20 ms", "burst: 21 ms")))
    assert one == described
    assert one.keys() == changed.keys()
    assert not {digest for _, digest in one.values()} & {digest for _, digest in changed.values()}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "rate: $rate",
            "rate: $rat",
            "c.yaml:17: policers[0].rate: no variable $rat (did you mean 'rate'?); "
            "valid: cc, duration, other, rate, scenario",
        ),
        (
            "{duration: 3 s}",
            "{duration: $duration}",
            "c.yaml:14: flows[0].duration: $duration refers to itself; valid: variables without a cycle",
        ),
        (
            "rate: $rate",
            "rate: 5 Mbit/s",
            "c.yaml:5: matrix.rate: changes nothing; valid: an experiment that uses $rate",
        ),
        (
            "name: small",
            "name: $cc",
            "c.yaml:2: name: is 'cubic' in one cell and 'bbr' in another; valid: the same in all, ",
        ),
        ("repeats: 2", "repeats: 0", "c.yaml:9: repeats: 0 is out of range; valid: 1 to 10000"),
        ("repeats: 2", "repeats: 10000000", "c.yaml:9: repeats: 10000000 is out of range; valid: 1 to 10000"),
        ("repeats: 2", "repeats: two", "c.yaml:9: repeats: 'two' is not a whole number; valid: 1 to 10000"),
        (
            "repeats: 2",
            "repeat: 2",
            "c.yaml:9: repeat: unknown key (did you mean 'repeats'?); valid: ",
        ),
        ("matrix:", "matirx:", "c.yaml:4: matirx: unknown key (did you mean 'matrix'?); valid: matrix, "),
        (
            "repeats: 2",
            "limits: {switch_p99: 3}",
            "c.yaml:9: limits.switch_p99: 3 has no unit; valid: ns, us, ms, s, min, such as '20 ms'",
        ),
        ("repeats: 2", "study: wehey", "c.yaml:9: study: no study 'wehey' (did you mean 'wehey-bbr'?); "),
        (
            "rate: [10 Mbit/s, 20 Mbit/s]",
            "rate: []",
            "c.yaml:5: matrix.rate: has no value; valid: at least",
        ),
        (
            "rate: [10 Mbit/s, 20 Mbit/s]",
            "rate: 10 Mbit/s",
            "c.yaml:5: matrix.rate: '10 Mbit/s' is not an axis; valid: a list of values, such as ",
        ),
        (
            "rate: [10 Mbit/s, 20 Mbit/s]",
            "rate: [10 Mbit/s, null]",
            "c.yaml:5: matrix.rate: item 2 is nothing; valid: text, a number, true, false, or ",
        ),
        (
            "rate: [10 Mbit/s, 20 Mbit/s]",
            "rate: {low: 10 Mbit/s}",
            "c.yaml:5: matrix.rate: label 'low' has '10 Mbit/s', not variables; valid: ",
        ),
        (
            "rate: [10 Mbit/s, 20 Mbit/s]",
            "my-rate: [10 Mbit/s]",
            "c.yaml:5: matrix.my-rate: 'my-rate' cannot be the name of a variable; valid: A-Z a-z 0-9 _, ",
        ),
        (
            "20 Mbit/s]\n",
            "20 Mbit]\n",
            "c.yaml:17: policers[0].rate: unknown unit 'Mbit' of a rate; valid: bit/s, kbit/s, Mbit/s, "
            "Gbit/s, Tbit/s, such as '40 Mbit/s' (in the cell rate=20 Mbit, scenario=alike)",
        ),
    ],
)
def test_errors_name_line_key_and_valid_values(old: str, new: str, line: str) -> None:
    found = lines(TEXT.replace(old, new, 1))
    assert found[0].startswith(line), found
    assert len(found) <= 2  # of two flows, each may have the mistake


def test_a_value_that_an_axis_has_twice_is_a_mistake_and_not_one_cell_less() -> None:
    for values in ("10 Mbit/s, 20 Mbit/s, 10 Mbit/s", "1, '1'", "true, 'True'"):
        (line,) = lines(TEXT.replace("10 Mbit/s, 20 Mbit/s", values))
        assert line.startswith("c.yaml:5: matrix.rate: item ")
        assert line.endswith(", and so is item 1; valid: each value once, and repeats for more runs")


def test_a_cycle_with_several_ways_around_is_found_at_once() -> None:
    text = TEXT.replace("{duration: 3 s}", "{duration: [$duration, $more, $more], more: [$duration, $more]}")
    found = lines(text)
    assert 1 <= len(found) <= 10
    assert all("refers to itself" in line for line in found)


def test_a_quick_grid_may_only_name_values_of_the_full_grid() -> None:
    found = lines(TEXT.replace("rate: [20 Mbit/s]", "rate: [30 Mbit/s]"), quick=True)
    assert found[0].startswith("c.yaml:11: quick.matrix.rate[0]: '30 Mbit/s' is not on axis rate")
    assert lines(TEXT.replace("quick:", "#"), quick=True)[0].startswith("c.yaml: quick: missing")


PARTS = (
    TEXT.replace("matrix:\n  rate: [10 Mbit/s, 20 Mbit/s]\n", "matrix:\n")
    + """
parts:
  one rate:
    variables: {rate: 5 Mbit/s}
  rates:
    matrix: {rate: [10 Mbit/s, 20 Mbit/s]}
    variables: {duration: 7 s}
    quick: {matrix: {rate: [20 Mbit/s]}, variables: {duration: 2 s}}
"""
).replace("quick: {matrix: {rate: [20 Mbit/s]}, repeats: 1", "quick: {repeats: 1")


@pytest.mark.parametrize(
    ("text", "old", "new", "line"),
    [
        (
            # Its flow would have $cc of `variables`, whatever the label says.
            TEXT.replace("{duration: 3 s}", "{duration: 3 s, cc: cubic}"),
            "mixed: {cc: bbr,",
            "mixed: {c: bbr,",
            "c.yaml:8: matrix.scenario.mixed.c: nothing uses $c (did you mean 'cc'?); "
            "valid: a variable that the file uses",
        ),
        (
            TEXT,
            "mixed: {cc: bbr,",
            "mixed: {cc: bbr, rate: 5 Mbit/s,",
            "c.yaml:8: matrix.scenario.mixed.rate: axis rate sets $rate as well; valid: one of the two",
        ),
        (
            PARTS,
            "{duration: 7 s}",
            "{duratoin: 7 s}",
            "c.yaml:23: parts.rates.variables.duratoin: nothing uses $duratoin (did you mean 'duration'?); "
            "valid: a variable that the file uses",
        ),
        (
            PARTS,
            "{duration: 7 s}",
            "{cc: bbr}",
            "c.yaml:23: parts.rates.variables.cc: axis scenario sets $cc as well; valid: one of the two",
        ),
        (
            PARTS,
            "    matrix: {rate: [10 Mbit/s, 20 Mbit/s]}",
            "    matrix: {rate: [10 Mbit/s, 20 Mbit/s], cc: [bbr]}",
            "c.yaml:22: parts.rates.matrix.cc: axis scenario sets $cc as well; valid: one of the two",
        ),
    ],
)
def test_a_variable_of_a_label_or_part_that_changes_nothing_is_a_mistake(
    text: str, old: str, new: str, line: str
) -> None:
    assert line in lines(text.replace(old, new, 1))


def test_parts_are_separate_grids_that_each_include_the_common_matrix() -> None:
    campaign = parse_campaign(PARTS)
    assert campaign.axes == {
        "part": ("one rate", "rates"),
        "scenario": ("alike", "mixed"),
        "rate": ("10 Mbit/s", "20 Mbit/s"),
    }
    assert len(campaign.runs) == len({run.key for run in campaign.runs}) == (2 + 2 * 2) * 2
    first, last = campaign.runs[0], campaign.runs[-1]
    assert campaign.labels(first.cell) == ("one rate", "alike", "")
    assert [run.experiment.policers[0].rate for run in (first, last) if run.experiment.policers] == [
        5_000_000,
        20_000_000,
    ]
    assert (first.traffic_s, last.traffic_s) == (3.0, 7.0)
    assert [len(its) for its in campaign.cells()] == [2] * 6


def test_a_part_has_its_own_number_of_repeats_unless_an_option_chooses_one_for_all() -> None:
    text = PARTS.replace("  rates:\n", "  rates:\n    repeats: 3\n")
    for campaign, repeats in (
        (parse_campaign(text), [2] * 2 + [3] * 4),
        (parse_campaign(text, quick=True), [1] * 4),
        (parse_campaign(text, overrides=Overrides(repeats=5)), [5] * 6),
    ):
        assert [len(its) for its in campaign.cells()] == repeats
    found = lines(text.replace("repeats: 3", "repeats: 0"))
    assert "parts.rates.repeats: 0 is out of range; valid: 1 to 10000" in found[0]


def test_each_part_has_a_separate_quick_grid() -> None:
    quick = parse_campaign(PARTS, quick=True)
    assert [(run.cell.get("rate"), run.traffic_s) for run in quick.runs] == [
        (None, 1.0),
        (None, 1.0),
        ("20 Mbit/s", 2.0),
        ("20 Mbit/s", 2.0),
    ]
    found = lines(
        PARTS.replace("{rate: [20 Mbit/s]}, variables", "{rat: [20 Mbit/s]}, variables"), quick=True
    )
    assert "parts.rates.quick.matrix.rat: no such axis; valid: rate" in found[0]
    twice = PARTS.replace("{rate: [10 Mbit/s, 20 Mbit/s]}", "{scenario: [a]}").replace(
        "{rate: [20", "{scenario: [20"
    )
    assert "parts.rates.matrix.scenario: axis scenario is already defined" in lines(twice)[0]


def test_runs_with_an_unavailable_congestion_control_are_left_out_only_on_request() -> None:
    assert len(parse_campaign(TEXT).offered_by(["cubic"]).runs) == 8
    campaign = parse_campaign("lacking: leave_out" + TEXT).offered_by(["cubic"])
    assert [run.cell["scenario"] for run in campaign.runs] == ["alike"] * 4
    assert campaign.left_out == {"bbr": 4}
    assert not parse_campaign("lacking: leave_out" + TEXT).offered_by(["cubic", "bbr"]).left_out


def test_more_than_max_runs_are_refused() -> None:
    values = ", ".join(f"{n} Mbit/s" for n in range(1, 60))
    text = TEXT.replace("10 Mbit/s, 20 Mbit/s", values).replace("repeats: 2", "repeats: 10000")
    assert f"valid: at most {MAX_RUNS}" in lines(text)[0]


REPLAYED = """\
name: again
hosts: {a: {}, b: {}}
flows: [{name: one, from: a, to: b, duration: 2 s, congestion_control: $cc, replay: one.replay}]
matrix: {cc: [bbr]}
"""


def test_a_changed_replay_file_changes_the_digest_of_a_run_and_not_its_key(tmp_path: Path) -> None:
    config, replay = tmp_path / "again.yaml", tmp_path / "one.replay"
    config.write_text(REPLAYED)
    script = Script((Block("client", 0, ((0.0, 10),)), Block("server", 10, ((0.5, 2000),))))
    replay.write_text(script.text)
    (before,) = load_campaign(config).runs
    assert before.inputs == {"replays/one.replay": script.text}
    replay.write_text(Script(script.blocks[:1]).text)
    (after,) = load_campaign(config).runs
    assert before.key == after.key
    assert before.digest != after.digest
