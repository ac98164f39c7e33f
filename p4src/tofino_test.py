# SPDX-License-Identifier: Apache-2.0
import json

import pytest

import build_p4
import parser_paths
import tofino

IN_A_STAGE = {
    "srams": 80,
    "map_rams": 48,
    "tcams": 24,
    "meter_alus": 4,
    "statistics_alus": 4,
    "gateways": 16,
    "logical_tables": 16,
}

programs = pytest.mark.parametrize(
    "program", [p for p in build_p4.PROGRAMS if p.chip is not None], ids=lambda program: program.name
)


def report(program):
    return json.loads((build_p4.ROOT / program.build / program.outputs[0]).read_text())


@programs
def test_the_program_fits_into_the_stages_of_its_chip(program):
    stages = report(program)["stages"]
    assert 0 < stages["used"] <= stages["available"] == (12 if program.chip is tofino.TOFINO1 else 20)


@programs
def test_every_arm_of_every_select_was_checked_in_the_assembly(program):
    sources = build_p4.sources(program)
    source = parser_paths.read_source(sources, tofino.WIDTHS)
    text = next(path for path in sources if path.name == "parser.p4")
    for gress, (name, start) in tofino.PARSERS.items():
        states = parser_paths.read_parser(text, name, source)
        arms = sum(
            arm.target != "reject" for state in tofino.reachable(states, start) for arm in states[state].arms
        )
        assert report(program)["parsers"][gress]["arms"] == arms


ASSEMBLY = """\
  hash_action tbl_police61 0:
      hash 0:
        32..33: meta.shared.colour_before(0..1)
      - tbl$meter.WeirIngress.police.policer(6, $hash_dist)
  meter tbl$meter.WeirIngress.police.policer:
    type: standard
    green: 0
    yellow: 1
    red: 2
    pre_color: hash_dist(2, 0..1)
    color_aware: true
    count: bytes
  hash_action tbl_police59 1:
    red: 7
"""


def test_a_colour_aware_meter_with_the_colour_codes_of_reports_is_accepted():
    tofino.check_meter(ASSEMBLY)


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("color_aware: true", "color_aware: false"),
        ("red: 2", "red: 3"),
        ("    pre_color: hash_dist(2, 0..1)\n", ""),
        ("policer(6,", "policer(4,"),
        ("colour_before(0..1)", "colour_before(6..7)"),
        ("police.policer:", "police.other:"),
    ],
)
def test_a_meter_that_the_compiler_made_colour_blind_is_found(here, there):
    with pytest.raises(tofino.TofinoError, match="meter"):
        tofino.check_meter(ASSEMBLY.replace(here, there))


@programs
def test_the_documentation_has_the_programs_resources(program):
    stages, total = report(program)["stages"], report(program)["total"]
    cells = [f"`{program.name}`", f"{stages['used']} of {stages['available']}"]
    cells += [f"{total.get(part, 0)} of {count * stages['available']}" for part, count in IN_A_STAGE.items()]
    assert f"| {' | '.join(cells)} |" in (build_p4.ROOT / "docs" / "tofino.md").read_text()
