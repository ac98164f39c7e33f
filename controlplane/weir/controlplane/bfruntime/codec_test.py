# SPDX-License-Identifier: Apache-2.0
"""Messages byte by byte, values that do not fit, and answers of a switch that are nonsense."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.controlplane.bfruntime.codec import read_data, read_key, table_entry
from weir.controlplane.bfruntime.entities import Present, Translator
from weir.controlplane.bfruntime.messages import CONTINUE_ON_ERROR, INSERT, MESSAGES
from weir.controlplane.bfruntime.program import BfRtProgram
from weir.controlplane.bfruntime.schema import SchemaAction, SchemaField, SchemaTable, read_bf_rt
from weir.controlplane.entities import (
    CloneSession,
    Entity,
    Link,
    Match,
    MeterCell,
    MulticastGroup,
    PortSettings,
    TableEntry,
)
from weir.controlplane.errors import PlanError, ReadError, UnsupportedByTargetError
from weir_tests.controlplane.bfrt_files import fixed_schema, program_schema

SCHEMA = program_schema()
PROGRAM = BfRtProgram("tofino1", SCHEMA, read_bf_rt(SCHEMA, "bf-rt.json"))
TRANSLATOR = Translator(PROGRAM, read_bf_rt(fixed_schema(), "fixed"))
TABLE = SchemaTable(
    5,
    "t",
    "MatchAction_Direct",
    8,
    {"k": SchemaField(1, "k", "bytes", 9, "Exact"), "m": SchemaField(2, "m", "bytes", 12, "Ternary")},
    {
        "flag": SchemaField(3, "flag", "bool"),
        "name": SchemaField(4, "name", "string", choices=("A", "B")),
        "ports": SchemaField(6, "ports", "uint32", 32, repeated=True),
    },
    {"go": SchemaAction(7, "Ingress.go", {"port": SchemaField(1, "port", "bytes", 9)})},
)


def test_a_write_request_is_that_of_the_published_schema_byte_by_byte() -> None:
    entry = table_entry(TABLE, {"k": 0x101, "m": (0xABC, 0xFF0)}, {"port": 3, "flag": False}, "go")
    request = MESSAGES["WriteRequest"](
        target=MESSAGES["TargetDevice"](device_id=1, pipe_id=0xFFFF),
        client_id=2,
        updates=[MESSAGES["Update"](type=INSERT, entity=MESSAGES["Entity"](table_entry=entry))],
        atomicity=CONTINUE_ON_ERROR,
        p4_name="p",
    )
    # By hand from bfruntime.proto. KeyField: id 1, exact 2 of value 1; ternary 3 of value 1, mask 2.
    exact = "0801" + "1204" + "0a020101"
    ternary = "0802" + "1a08" + "0a020abc" + "12020ff0"
    key = f"0a{len(exact) // 2:02x}{exact}" + f"0a{len(ternary) // 2:02x}{ternary}"
    # DataField: id 1, stream 2, bool_val 8 (present although false). TableData: action 1, fields 2.
    port, flag = "0801" + "12020003", "0803" + "4000"
    data = "0807" + f"12{len(port) // 2:02x}{port}" + f"12{len(flag) // 2:02x}{flag}"
    # TableEntry: table 1, key 2, data 3. Entity: table_entry 1. Update: type 1, entity 2.
    table = "0805" + f"12{len(key) // 2:02x}{key}" + f"1a{len(data) // 2:02x}{data}"
    entity = f"0a{len(table) // 2:02x}{table}"
    update = "0801" + f"12{len(entity) // 2:02x}{entity}"
    # WriteRequest: target 1 (device 1, pipe 2), client 2, updates 3, atomicity 4 (0: left out), p4_name 5.
    wanted = "0a06" + "0801" + "10ffff03" + "1002" + f"1a{len(update) // 2:02x}{update}" + "2a0170"
    assert request.SerializeToString(deterministic=True).hex() == wanted


def test_a_bind_and_a_subscription_are_those_of_the_published_schema_byte_by_byte() -> None:
    config = MESSAGES["ForwardingPipelineConfig"](p4_name="p", bfruntime_info=b"{}")
    profile = config.profiles.add(profile_name="q", context=b"c", binary=b"b", pipe_scope=[0, 1])
    assert profile.SerializeToString().hex() == "0a0171" + "120163" + "1a0162" + "22020001"
    request = MESSAGES["SetForwardingPipelineConfigRequest"](
        device_id=1, client_id=2, action=3, dev_init_mode=1, base_path="x", config=[config]
    )
    inner = "0a0170" + "12027b7d" + "1a0d" + profile.SerializeToString().hex()
    assert request.SerializeToString().hex() == (
        "0801" + "1002" + "1803" + "2001" + "2a0178" + f"32{len(inner) // 2:02x}{inner}"
    )
    wanted = MESSAGES["Notifications"](enable_learn_notifications=True)
    subscribe = MESSAGES["Subscribe"](device_id=1, notifications=wanted)
    message = MESSAGES["StreamMessageRequest"](client_id=2, subscribe=subscribe)
    assert message.SerializeToString().hex() == "0802" + "1206" + "1001" + "1a020801"
    error = MESSAGES["Error"].FromString(bytes.fromhex("0805" + "1201" + "78"))
    assert (error.canonical_code, error.message) == (5, "x")


@pytest.mark.parametrize(
    ("key", "data", "message"),
    [
        ({"k": 512}, {}, "table t: field k has no 512; valid: 0 to 511"),
        ({"m": (1, 4096)}, {}, "table t: field m has no 4096; valid: 0 to 4095"),
        ({"x": 1}, {}, "table t: no field x; valid: k, m"),
        ({"k": (1, 1)}, {}, "table t: field k is Exact; valid: Exact, or Ternary"),
        ({}, {"name": "C"}, "table t: field name: no C; valid: A, B"),
        ({}, {"flag": "A"}, "table t: field flag is bool, and not 'A'"),
        ({}, {"ports": (2**32,)}, "table t: field ports has no 4294967296"),
    ],
)
def test_what_does_not_fit_is_named_before_it_is_sent(key: Any, data: Any, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        table_entry(TABLE, key, data)
    assert str(caught.value).startswith(message)


def test_an_unknown_action_is_named() -> None:
    with pytest.raises(PlanError, match="table t: no action stop; valid: go"):
        table_entry(TABLE, {"k": 1}, {}, "stop")


@pytest.mark.parametrize(
    "entity",
    [
        TableEntry(
            "classify",
            (Match("dscp", 10), Match("src", 0x0A000000, 0xFFFFFF00)),
            "police_shared",
            (("cell", 3), ("watched", 1)),
            priority=7,
        ),
        TableEntry("forward", (Match("dst", 2**48 - 1),), "set_egress", (("port", 511),)),
        MeterCell("policer", 9, 1_250_000, 64_000),
        MeterCell("policer", 9, 1_250_000, 64_000, 2_500_000, 128_000),
        CloneSession(2, (156,), 160),
        CloneSession(2, (156,)),
        PortSettings(132, 100 * 10**9, "reed_solomon", "off"),
    ],
)
def test_an_entity_is_the_same_on_the_way_back(entity: Entity) -> None:
    (update,) = TRANSLATOR.updates("insert", entity, Present())
    entry = update.entity.table_entry
    match entity:
        case TableEntry():
            assert TRANSLATOR.table_entry(entity.table, entry) == entity
        case MeterCell():
            assert TRANSLATOR.meter_cell(entity.meter, entry) == entity
        case CloneSession():
            assert TRANSLATOR.session(entry) == entity
        case PortSettings():
            assert TRANSLATOR.settings(entry) == entity


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        (CloneSession(1, (1, 2)), "clone session 1: 2 ports; valid: one port"),
        (MeterCell("policer", 1, 125, 125, excess_burst_bytes=1), "a Tofino has no excess burst"),
        (PortSettings(1, 12345), "settings of port 1: no such speed; valid: 1 Gbit/s, 10 Gbit/s"),
        (Link(1), "BfRuntime has no link of port 1"),
    ],
)
def test_what_the_chip_lacks_is_named(entity: Entity, message: str) -> None:
    with pytest.raises(UnsupportedByTargetError) as caught:
        TRANSLATOR.updates("modify", entity, Present())
    assert message in str(caught.value)


def test_the_node_of_another_controllers_group_stays() -> None:
    group = MulticastGroup(3, (1, 2))

    def deleted(members: tuple[int, ...]) -> list[int]:
        present = Present(frozenset({3, 5}), {3: members})
        updates = TRANSLATOR.updates("delete", group, present)
        return [update.entity.table_entry.table_id for update in updates]

    mgid, node = TRANSLATOR.fixed("$pre.mgid").id, TRANSLATOR.fixed("$pre.node").id
    assert deleted((3,)) == [mgid, node]
    assert deleted((5,)) == [mgid]


streams = st.binary(max_size=20)
key_fields = st.builds(
    lambda number, exact, ternary, which: MESSAGES["KeyField"](
        field_id=number,
        exact=MESSAGES["Exact"](value=exact) if which == 0 else None,
        ternary=MESSAGES["Ternary"](value=ternary[0], mask=ternary[1]) if which == 1 else None,
    ),
    st.sampled_from([1, 2, 8, 65537, 0]),
    streams,
    st.tuples(streams, streams),
    st.integers(0, 2),
)
data_fields = st.builds(
    lambda number, stream, text, which: MESSAGES["DataField"](
        field_id=number,
        stream=stream if which == 0 else None,
        str_val=text if which == 1 else None,
        bool_val=True if which == 2 else None,
        int_arr_val=MESSAGES["IntArray"](val=[1, 2]) if which == 3 else None,
    ),
    st.integers(0, 40),
    streams,
    st.text(max_size=5),
    st.integers(0, 4),
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["classify", "forward", "$mirror.cfg", "$pre.mgid", "$pre.node", "$PORT", "policer"]),
    st.lists(key_fields, max_size=4),
    st.lists(data_fields, max_size=5),
    st.sampled_from([0, 1, 2, 26465038]),
)
def test_any_answer_of_a_switch_is_read_or_refused(name: str, key: Any, data: Any, action: int) -> None:
    entry = MESSAGES["TableEntry"](
        key=MESSAGES["TableKey"](fields=key), data=MESSAGES["TableData"](fields=data, action_id=action)
    )
    readers: dict[str, Any] = {
        "$mirror.cfg": lambda: TRANSLATOR.session(entry),
        "$pre.mgid": lambda: TRANSLATOR.members([entry]),
        "$pre.node": lambda: TRANSLATOR.nodes([entry]),
        "$PORT": lambda: TRANSLATOR.settings(entry),
        "policer": lambda: TRANSLATOR.meter_cell("policer", entry),
    }
    with suppress(ReadError):  # any other exception fails the test
        readers.get(name, lambda: TRANSLATOR.table_entry(name, entry))()


def test_numbers_of_a_table_without_the_field_are_refused() -> None:
    entry = table_entry(TABLE, {"k": 1}, {"port": 1}, "go")
    assert read_key(TABLE, entry) == {"k": 1}
    assert read_data(TABLE, entry) == ("go", {"port": 1})
    entry.data.fields[0].stream = b"\x01\x02\x03"
    with pytest.raises(ReadError, match="field port came with 3 bytes"):
        read_data(TABLE, entry)
