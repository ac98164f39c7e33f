# SPDX-License-Identifier: Apache-2.0
"""The P4Infos of v1model and of both Tofinos are the same, except for the differences declared here and in
docs/tofino.md."""

from pathlib import Path

import pytest
from finsy.proto import p4i
from google.protobuf import text_format

BUILD = Path(__file__).parent / "build"
V1MODEL = "weir"
TOFINOS = ("tofino1", "tofino2")
SMALLER = {
    "policer",
    "packet_number",
    "met_counter",
    "policer_counter",
    "unlearned_counter",
}
"""Arrays with one element per policer: a stage of Tofino has memory for fewer."""
ONLY_TOFINO_TABLES = {"pre_colour"}
PRE_COLOURS = ("come_in_yellow", "come_in_red", "come_in_green")
ONLY_TOFINO_ACTIONS = set(PRE_COLOURS)
"""Colours with which packets come in: v1model's meter is colour-blind."""
ONLY_V1MODEL = {"last_number"}
"""Numbers for gap counting: Tofino deflects what a full queue drops."""


def read(name):
    text = (BUILD / f"{name}.p4info.txtpb").read_text()
    return text_format.Parse(text, p4i.P4Info())


@pytest.fixture(scope="module")
def v1model():
    return read(V1MODEL)


@pytest.fixture(scope="module", params=TOFINOS)
def tofino(request):
    return read(request.param)


def short(name):
    return name.rsplit(".", 1)[-1]


def by_name(entities):
    return {short(entity.preamble.name): entity for entity in entities}


def actions(info):
    return {action.preamble.id: short(action.preamble.name) for action in info.actions}


def describe_tables(info):
    names = actions(info)
    return {
        short(table.preamble.name): {
            "keys": [(key.name, key.bitwidth, key.match_type) for key in table.match_fields],
            "actions": [(names[ref.id], ref.scope) for ref in table.action_refs],
            "default": names.get(table.const_default_action_id, ""),
            "size": table.size,
        }
        for table in info.tables
    }


def describe_actions(info):
    return {
        name: [(param.name, param.bitwidth) for param in action.params]
        for name, action in by_name(info.actions).items()
    }


def test_tables_have_the_same_keys_actions_defaults_and_sizes(v1model, tofino):
    ours, theirs = describe_tables(tofino), describe_tables(v1model)
    assert ours.keys() - theirs.keys() == ONLY_TOFINO_TABLES
    assert {name: ours[name] for name in theirs} == theirs


def test_actions_have_the_same_parameters(v1model, tofino):
    ours, theirs = describe_actions(tofino), describe_actions(v1model)
    assert ours.keys() - theirs.keys() == ONLY_TOFINO_ACTIONS
    assert {name: ours[name] for name in theirs} == theirs


def test_incoming_colours_are_matched_by_cell_and_dscp_and_have_no_parameters(tofino):
    assert describe_tables(tofino)["pre_colour"] == {
        "keys": [("cell", 16, p4i.MatchField.TERNARY), ("dscp", 6, p4i.MatchField.TERNARY)],
        "actions": [(name, p4i.ActionRef.TABLE_AND_DEFAULT) for name in PRE_COLOURS],
        "default": "come_in_green",
        "size": 1024,
    }
    assert [describe_actions(tofino)[name] for name in PRE_COLOURS] == [[]] * len(PRE_COLOURS)


def test_full_names_of_tables_and_actions_are_the_same(v1model, tofino):
    for kind, added in (("tables", ONLY_TOFINO_TABLES), ("actions", ONLY_TOFINO_ACTIONS)):
        ours = {entity.preamble.name.removeprefix("pipe.") for entity in getattr(tofino, kind)}
        theirs = {entity.preamble.name for entity in getattr(v1model, kind)}
        assert theirs <= ours
        assert {short(name) for name in ours - theirs} == added


@pytest.mark.parametrize("kind", ["counters", "meters"])
def test_counters_and_meters_count_the_same(v1model, tofino, kind):
    theirs, ours = by_name(getattr(v1model, kind)), by_name(getattr(tofino, kind))
    assert ours.keys() == theirs.keys()
    for name, entity in ours.items():
        assert entity.spec == theirs[name].spec, name
        if name in SMALLER:
            assert entity.size <= theirs[name].size, name
        else:
            assert entity.size == theirs[name].size, name


def test_registers_hold_the_same(v1model, tofino):
    theirs, ours = by_name(v1model.registers), by_name(tofino.registers)
    assert ours.keys() == theirs.keys() - ONLY_V1MODEL
    for name, register in ours.items():
        assert register.type_spec == theirs[name].type_spec, name
        assert name in SMALLER or register.size == theirs[name].size, name


def test_digests_carry_the_same_fields(v1model, tofino):
    def fields(info):
        structs = {
            name: [(member.name, member.type_spec.bitstring.bit.bitwidth) for member in struct.members]
            for name, struct in info.type_info.structs.items()
        }
        return {short(digest.preamble.name): structs[digest.type_spec.struct.name] for digest in info.digests}

    assert sorted(fields(tofino).values()) == sorted(fields(v1model).values())
    assert fields(tofino).keys() == fields(v1model).keys()
