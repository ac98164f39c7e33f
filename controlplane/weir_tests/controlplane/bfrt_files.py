# SPDX-License-Identifier: Apache-2.0
"""bf-rt.json of weir's program, and of the fixed parts of a switch, for tests without compiler and switch.

The program's is made of its P4Info by the rules of p4c's generator (backends/tofino/bf-p4c/control-plane);
the parts' have only what weir uses, under the ids and names of open P4 Studio's bf-drivers for Tofino 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from finsy.proto import p4i
from google.protobuf import text_format

from weir.controlplane.shipped import pipeline_directory

PRIORITY, CIR, PIR, CBS, PBS, COUNTER_BYTES, COUNTER_PACKETS = 65537, 65545, 65546, 65547, 65548, 65553, 65554
METER_INDEX, COUNTER_INDEX, REGISTER_INDEX = 65555, 65556, 65557
_MATCH = {p4i.MatchField.EXACT: "Exact", p4i.MatchField.TERNARY: "Ternary", p4i.MatchField.LPM: "LPM"}
_SCOPES = ("TableAndDefault", "TableOnly", "DefaultOnly")
_PREFIXES = {"counters": 0x83, "meters": 0x85, "registers": 0x8B, "digests": 0x8E}


def p4info_of(chip: str) -> p4i.P4Info:
    """The P4Info of weir's program for "tofino1" or "tofino2"."""
    return text_format.Parse((pipeline_directory() / f"{chip}.p4info.txtpb").read_text(), p4i.P4Info())


def program_schema(chip: str = "tofino1") -> bytes:
    """The bf-rt.json of weir's program."""
    info = p4info_of(chip)
    tables = [
        *(_match_table(info, table) for table in info.tables),
        *(_counter(counter) for counter in info.counters),
        *(_meter(meter) for meter in info.meters),
        *(_register(register) for register in info.registers),
    ]
    filters = [_digest(info, digest) for digest in info.digests]
    return json.dumps({"schema_version": "1.0.0", "tables": tables, "learn_filters": filters}).encode()


def fixed_schema(chip: str = "tf1") -> bytes:
    """The fixed parts of a switch with this chip (tf1 or tf2)."""
    ports = field(3, "$DEV_PORT", number("uint32"), repeated=True)
    tables = [
        table(
            "$pre.mgid",
            4278321153,
            "PreMgid",
            65536,
            [key(1, "$MGID", number("uint16"))],
            [
                data(field(1, "$MULTICAST_NODE_ID", number("uint32"), repeated=True)),
                data(field(2, "$MULTICAST_NODE_L1_XID_VALID", {"type": "bool"}, repeated=True)),
                data(field(3, "$MULTICAST_NODE_L1_XID", number("uint16"), repeated=True)),
                data(field(4, "$MULTICAST_ECMP_ID", number("uint32"), repeated=True)),
                data(field(5, "$MULTICAST_ECMP_L1_XID_VALID", {"type": "bool"}, repeated=True)),
                data(field(6, "$MULTICAST_ECMP_L1_XID", number("uint16"), repeated=True)),
            ],
        ),
        table(
            "$pre.node",
            4278321154,
            "PreNode",
            1 << 24,
            [key(1, "$MULTICAST_NODE_ID", number("uint32"))],
            [
                data(field(1, "$MULTICAST_RID", number("uint16")), mandatory=True),
                data(field(2, "$MULTICAST_LAG_ID", number("uint8"), repeated=True), mandatory=True),
                data(ports, mandatory=True),
            ],
        ),
        table(
            "$PORT",
            4278255617,
            "PortConfigure",
            256,
            [key(1, "$DEV_PORT", number("uint32"))],
            [
                data(field(1, "$SPEED", choice(*(f"BF_SPEED_{name}" for name in SPEEDS)))),
                data(field(2, "$FEC", choice(*(f"BF_FEC_TYP_{name}" for name in FECS)))),
                data(field(3, "$N_LANES", number("uint32"))),
                data(field(4, "$PORT_ENABLE", {"type": "bool", "default_value": False})),
                data(field(5, "$AUTO_NEGOTIATION", choice(*(f"PM_AN_{name}" for name in POLICIES)))),
                data(field(25, "$PORT_UP", {"type": "bool"}), read_only=True),
                data(field(33, "$PLL_OVRCLK", {"type": "float", "default_value": 0})),
            ],
        ),
        table(f"{chip}.tm.queue.sched_shaping", 4278583320, "TmQueueSchedShaping", 100, [], []),
    ]
    mirror = table("$mirror.cfg", 4278452225, "MirrorCfg", 1024, [key(1, "$sid", number("uint16"))], [
        data(field(5, "$session_enable", {"type": "bool"})),
        data(field(6, "$direction", choice("INGRESS", "EGRESS", "BOTH"))),
        data(field(7, "$ucast_egress_port", number("uint32"))),
        data(field(8, "$ucast_egress_port_valid", {"type": "bool"})),
        data(field(14, "$mcast_grp_a", number("uint16"))),
        data(field(15, "$mcast_grp_a_valid", {"type": "bool"})),
        data(field(23, "$max_pkt_len", number("uint16"))),
    ])  # fmt: skip
    mirror["action_specs"] = [
        {"id": 1, "name": "$coalescing", "data": [data(field(4, "$extract_len", number("uint32")))]},
        {"id": 2, "name": "$normal", "data": []},
    ]
    return json.dumps({"tables": [*tables, mirror]}).encode()


SPEEDS = ("NONE", "1G", "10G", "25G", "40G", "50G", "100G", "200G", "400G")
FECS = ("NONE", "FIRECODE", "REED_SOLOMON", "FC", "RS")
POLICIES = ("DEFAULT", "FORCE_ENABLE", "FORCE_DISABLE")


def compiler_output(folder: Path, chip: str = "tofino1", schema: bytes | None = None) -> Path:
    """Write what p4c for Tofino leaves, with a made-up context and binary, and the P4Info."""
    (folder / "pipe").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"programs": [{"program_name": f"{chip}.p4"}]}))
    (folder / "bf-rt.json").write_bytes(program_schema(chip) if schema is None else schema)
    (folder / "pipe" / "context.json").write_text("{}")
    (folder / "pipe" / f"{chip.removesuffix('1')}.bin").write_bytes(b"\x00\xff\x01")
    text = (pipeline_directory() / f"{chip}.p4info.txtpb").read_text()
    (folder / f"{chip}.p4info.txtpb").write_text(text)
    return folder


def table(
    name: str, number_: int, kind: str, size: int, keys: list[Any], fields: list[Any]
) -> dict[str, Any]:
    """A table of a schema."""
    described = {"name": name, "id": number_, "table_type": kind, "size": size, "key": keys, "data": fields}
    return {**described, "supported_operations": [], "attributes": []}


def field(number_: int, name: str, kind: Any, *, repeated: bool = False) -> dict[str, Any]:
    """A field of any kind."""
    return {"id": number_, "name": name, "repeated": repeated, "annotations": [], "type": kind}


def key(
    number_: int, name: str, kind: Any, match: str = "Exact", *, mandatory: bool = True
) -> dict[str, Any]:
    """A key field."""
    return {**field(number_, name, kind), "mandatory": mandatory, "match_type": match}


def data(one: Any, *, mandatory: bool = False, read_only: bool = False) -> dict[str, Any]:
    """A data item with one field."""
    return {"mandatory": mandatory, "read_only": read_only, "singleton": one}


def number(kind: str) -> dict[str, Any]:
    """The type of an integer."""
    return {"type": kind}


def choice(*choices: str) -> dict[str, Any]:
    """The type of one of several texts."""
    return {"type": "string", "choices": list(choices)}


def _bytes(width: int) -> dict[str, Any]:
    return {"type": "bytes", "width": width}


def _match_table(info: p4i.P4Info, of: p4i.Table) -> dict[str, Any]:
    keys = [
        key(one.id, one.name, _bytes(one.bitwidth), _MATCH[one.match_type], mandatory=False)
        for one in of.match_fields
    ]
    if any(one.match_type == p4i.MatchField.TERNARY for one in of.match_fields):
        keys.append(key(PRIORITY, "$MATCH_PRIORITY", number("uint32"), mandatory=False))
    described = table(f"pipe.{of.preamble.name}", of.preamble.id, "MatchAction_Direct", of.size, keys, [])
    actions = {action.preamble.id: action for action in info.actions}
    described["action_specs"] = [
        {
            "id": ref.id,
            "name": actions[ref.id].preamble.name,
            "action_scope": _SCOPES[ref.scope],
            "annotations": [],
            "data": [
                {**field(one.id, one.name, _bytes(one.bitwidth)), "mandatory": True, "read_only": False}
                for one in actions[ref.id].params
            ],
        }
        for ref in of.action_refs
    ]
    described["has_const_default_action"] = of.const_default_action_id != 0
    return described


def _indexed(of: Any, kind: str, index: dict[str, Any], fields: Sequence[Any]) -> dict[str, Any]:
    prefix = _PREFIXES[f"{kind.lower()}s"]
    number_ = of.preamble.id & 0xFFFFFF | prefix << 24
    return table(f"pipe.{of.preamble.name}", number_, kind, of.size, [index], list(fields))


def _counter(of: p4i.Counter) -> dict[str, Any]:
    parts = {
        p4i.CounterSpec.BYTES: [(COUNTER_BYTES, "$COUNTER_SPEC_BYTES")],
        p4i.CounterSpec.PACKETS: [(COUNTER_PACKETS, "$COUNTER_SPEC_PKTS")],
    }
    parts[p4i.CounterSpec.BOTH] = [*parts[p4i.CounterSpec.BYTES], *parts[p4i.CounterSpec.PACKETS]]
    fields = [data(field(number_, name, number("uint64"))) for number_, name in parts[of.spec.unit]]
    return _indexed(of, "Counter", key(COUNTER_INDEX, "$COUNTER_INDEX", number("uint32")), fields)


def _meter(of: p4i.Meter) -> dict[str, Any]:
    names = {CIR: "CIR_KBPS", PIR: "PIR_KBPS", CBS: "CBS_KBITS", PBS: "PBS_KBITS"}
    fields = [
        data(field(number_, f"$METER_SPEC_{name}", {"type": "uint64", "default_value": 2**64 - 1}))
        for number_, name in names.items()
    ]
    return _indexed(of, "Meter", key(METER_INDEX, "$METER_INDEX", number("uint32")), fields)


def _register(of: p4i.Register) -> dict[str, Any]:
    name = f"{of.preamble.name}.f1"
    fields = [data(field(1, name, _bytes(of.type_spec.bitstring.bit.bitwidth)), mandatory=True)]
    return _indexed(of, "Register", key(REGISTER_INDEX, "$REGISTER_INDEX", number("uint32")), fields)


def _digest(info: p4i.P4Info, of: p4i.Digest) -> dict[str, Any]:
    members = info.type_info.structs[of.type_spec.struct.name].members
    return {
        "name": f"pipe.{of.preamble.name}",
        "id": of.preamble.id & 0xFFFFFF | _PREFIXES["digests"] << 24,
        "annotations": [],
        "fields": [
            field(number_, one.name, _bytes(one.type_spec.bitstring.bit.bitwidth))
            for number_, one in enumerate(members, 1)
        ],
    }
