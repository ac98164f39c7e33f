# SPDX-License-Identifier: Apache-2.0
"""Any bytes give a schema or a PipelineError that says where they are wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.controlplane.bfruntime.schema import BfRtInfo, read_bf_rt
from weir.controlplane.errors import PipelineError
from weir_tests.controlplane.bfrt_files import fixed_schema, p4info_of, program_schema

PROGRAM, FIXED = program_schema(), fixed_schema()
TREE: dict[str, Any] = json.loads(FIXED)

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-1, 2**70), st.floats(), st.text(max_size=8),
    st.sampled_from(["Exact", "bytes", "uint32", "string", "container", "singleton"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def paths_in(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path for name, child in children for path in ((*at, name), *paths_in(child, (*at, name)))]


PATHS = paths_in(TREE)


def changed(changes: list[tuple[int, Any]]) -> bytes:
    tree = json.loads(FIXED)
    for place, value in changes:
        *parents, last = PATHS[place % len(PATHS)]
        node = tree
        try:
            for name in parents:
                node = node[name]
            node[last] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed the path
    return json.dumps(tree).encode()


def read(text: bytes) -> BfRtInfo | None:
    """The schema, or None if it is refused in the right way."""
    try:
        return read_bf_rt(text, "x.json")
    except PipelineError as error:
        said = str(error)
    assert said.startswith("x.json: ")
    assert "; valid: " in said
    return None


def test_ids_and_widths_of_the_program_are_those_of_its_p4info() -> None:
    info = read_bf_rt(PROGRAM, "bf-rt.json")
    for table in p4info_of("tofino1").tables:
        found = info.find(table.preamble.alias, ["MatchAction_Direct"])
        assert found is not None
        assert (found.id, found.size) == (table.preamble.id, table.size)
        assert {
            name: (field.id, field.bits, field.match.upper())
            for name, field in found.key.items()
            if name != "$MATCH_PRIORITY"
        } == {
            one.name: (one.id, one.bitwidth, one.MatchType.Name(one.match_type)) for one in table.match_fields
        }
        assert {action.id for action in found.actions.values()} == {ref.id for ref in table.action_refs}
    meter = info.find("policer", ["Meter"])
    assert meter is not None
    assert meter.size == 16384
    assert meter.key["$METER_INDEX"].width_bytes == 4
    assert meter.data["$METER_SPEC_CIR_KBPS"].width_bytes == 8


def test_program_and_fixed_parts_are_one_schema() -> None:
    info = read_bf_rt(PROGRAM, "bf-rt.json") + read_bf_rt(FIXED, "the switch")
    mirror = info.find("$mirror.cfg")
    assert mirror is not None
    assert mirror.actions["$normal"].id == 2
    assert {one.name.rpartition(".")[2] for one in info.filters} == {"flow_digest_t", "flow_ipv6_digest_t"}


def test_a_name_that_several_tables_end_with_is_none_of_them() -> None:
    tree = json.loads(PROGRAM)
    tree["tables"].append({**tree["tables"][0], "id": 1, "name": "other.forward"})
    info = read_bf_rt(json.dumps(tree).encode(), "x.json")
    assert info.find("forward") is None
    assert info.find("other.forward") is not None


def test_what_is_no_schema_is_refused() -> None:
    for text, message in (
        (b"\xff", "x.json: not JSON: "),
        (b"[" * 100_000, "x.json: not JSON: "),
        (b"[]", "x.json: no object where one is expected; valid: "),
        (b'{"tables": {}}', "x.json: tables is not a list; valid: "),
    ):
        with pytest.raises(PipelineError) as caught:
            read_bf_rt(text, "x.json")
        assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": -1}, "table $PORT: id is not a number from 0 to 4294967295"),
        ({"size": True}, "table $PORT: size is not a number from 0 to "),
        (
            {"key": [{"name": "k", "id": 1, "type": {"type": "uint8"}}]},
            "table $PORT: field k: it has no m",
        ),
        ({"data": [{"singleton": {"name": "d", "id": 1}}]}, "table $PORT: field d: no object where one is"),
    ],
)
def test_a_table_in_another_form_is_missed_only_where_it_is_needed(change: Any, message: str) -> None:
    tree = json.loads(FIXED)
    (port,) = (table for table in tree["tables"] if table["name"] == "$PORT")
    port.update(change)
    info = read_bf_rt(json.dumps(tree).encode(), "x.json")
    assert info.find("$PORT") is None
    assert info.why_not("$PORT").startswith(message)
    assert info.find("$pre.mgid") is not None


def test_a_field_of_an_unknown_type_or_match_takes_no_table_away() -> None:
    # The fixed tables of Tofino 2 have an "enum" in a table of the packet generator.
    tree = json.loads(FIXED)
    strange = {"name": "mode", "id": 9, "type": {"type": "enum", "choices": ["A"]}}
    (port,) = (table for table in tree["tables"] if table["name"] == "$PORT")
    port["data"].append({"mandatory": False, "read_only": False, "singleton": strange})
    port["key"].append({**strange, "id": 2, "match_type": "Fuzzy"})
    found = read_bf_rt(json.dumps(tree).encode(), "x.json").find("$PORT")
    assert found is not None
    assert (found.data["mode"].kind, found.data["mode"].bits, found.key["mode"].match) == ("enum", 0, "Fuzzy")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(min_value=0), values), min_size=1, max_size=4))
def test_any_value_anywhere_is_accepted_or_explained(changes: list[tuple[int, Any]]) -> None:
    info = read(changed(changes))
    if info is not None:
        # Each table of the file was read, or has a reason.
        assert len(info.tables) + len(info.unread) <= len(json.loads(changed(changes))["tables"])
        assert all(0 <= one.bits <= 1 << 20 for table in info.tables for one in table.data.values())


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.integers(0, len(FIXED)))
def test_any_bytes_are_accepted_or_explained(inserted: bytes, at: int) -> None:
    read(inserted)
    read(FIXED[:at] + inserted + FIXED[at:])
    read(FIXED[:at])
