# SPDX-License-Identifier: Apache-2.0
"""bmv2's services as a client sees them: structures, codes, methods.

Numbers, types and names are those on the wire
(bmv2's standard.thrift, simple_pre_lag.thrift, simple_switch.thrift).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from weir.cli.simple_switch.wire import (
    BINARY,
    BOOL,
    DOUBLE,
    I16,
    I32,
    I64,
    TEXT,
    Connection,
    DeclaredError,
    Kind,
)

EXACT, LPM, TERNARY, VALID, RANGE = range(5)
NO_ENTRY, ACTION_DATA, MEMBER, GROUP = range(4)


@dataclass(frozen=True)
class Exact:
    """A value."""

    FIELDS: ClassVar = ((1, BINARY),)
    key: bytes = b""


@dataclass(frozen=True)
class Lpm:
    """A prefix."""

    FIELDS: ClassVar = ((1, BINARY), (2, I32))
    key: bytes = b""
    prefix_length: int = 0


@dataclass(frozen=True)
class Ternary:
    """A value and a mask."""

    FIELDS: ClassVar = ((1, BINARY), (2, BINARY))
    key: bytes = b""
    mask: bytes = b""


@dataclass(frozen=True)
class Valid:
    """Whether a header is valid."""

    FIELDS: ClassVar = ((1, BOOL),)
    key: bool = False


@dataclass(frozen=True)
class Range:
    """Inclusive bounds."""

    FIELDS: ClassVar = ((1, BINARY), (2, BINARY))
    start: bytes = b""
    end_: bytes = b""


@dataclass(frozen=True)
class MatchParam:
    """The match of one field: a type, and the structure of that type."""

    FIELDS: ClassVar = ((1, I32), (2, Exact), (3, Lpm), (4, Ternary), (5, Valid), (6, Range))
    type: int = 0
    exact: Exact | None = None
    lpm: Lpm | None = None
    ternary: Ternary | None = None
    valid: Valid | None = None
    range: Range | None = None


@dataclass(frozen=True)
class Options:
    """Further values of an entry, beside key and action."""

    FIELDS: ClassVar = ((1, I32),)
    priority: int | None = None


@dataclass(frozen=True)
class CounterValue:
    """The value of a counter."""

    FIELDS: ClassVar = ((1, I64), (2, I64))
    bytes: int = 0
    packets: int = 0


@dataclass(frozen=True)
class MeterRate:
    """A rate in units per microsecond, and a burst in units."""

    FIELDS: ClassVar = ((1, DOUBLE), (2, I32))
    units_per_micros: float = 0.0
    burst_size: int = 0


@dataclass(frozen=True)
class ActionEntry:
    """An action with its data, or the number of a member or group."""

    FIELDS: ClassVar = ((1, I32), (2, TEXT), (3, [BINARY]), (4, I32), (5, I32))
    action_type: int = NO_ENTRY
    action_name: str | None = None
    action_data: list[bytes] | None = None
    mbr_handle: int | None = None
    grp_handle: int | None = None


@dataclass(frozen=True)
class Life:
    """The timeout of an entry, and the time since its last hit."""

    FIELDS: ClassVar = ((1, I32), (2, I32))
    timeout_ms: int = 0
    time_since_hit_ms: int = 0


@dataclass(frozen=True)
class Entry:
    """An entry of a table."""

    FIELDS: ClassVar = ((1, [MatchParam]), (2, Options), (3, I32), (4, ActionEntry), (5, Life))
    match_key: list[MatchParam] = field(default_factory=list)
    options: Options = field(default_factory=Options)
    entry_handle: int = 0
    action_entry: ActionEntry = field(default_factory=ActionEntry)
    life: Life | None = None


@dataclass(frozen=True)
class Member:
    """A member of an action profile."""

    FIELDS: ClassVar = ((1, I32), (2, TEXT), (3, [BINARY]))
    mbr_handle: int = 0
    action_name: str = ""
    action_data: list[bytes] = field(default_factory=list)


@dataclass(frozen=True)
class MemberGroup:
    """A group of members."""

    FIELDS: ClassVar = ((1, I32), (2, [I32]))
    grp_handle: int = 0
    mbr_handles: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class PortInfo:
    """A port of the switch."""

    FIELDS: ClassVar = ((1, I32), (2, TEXT), (3, BOOL), (4, (TEXT, TEXT)))
    port_num: int = 0
    iface_name: str = ""
    is_up: bool = False
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """Facts about the switch, from itself."""

    FIELDS: ClassVar = ((1, I64), (2, I32), (3, TEXT), (4, TEXT), (5, TEXT))
    device_id: int | None = None
    thrift_port: int | None = None
    notifications_socket: str | None = None
    elogger_socket: str | None = None
    debugger_socket: str | None = None


@dataclass(frozen=True)
class Crc16Config:
    """The parameters of a custom CRC of 16 bits."""

    FIELDS: ClassVar = ((1, I16), (2, I16), (3, I16), (4, BOOL), (5, BOOL))
    polynomial: int
    initial_remainder: int
    final_xor_value: int
    data_reflected: bool
    remainder_reflected: bool


@dataclass(frozen=True)
class Crc32Config:
    """The parameters of a custom CRC of 32 bits."""

    FIELDS: ClassVar = ((1, I32), (2, I32), (3, I32), (4, BOOL), (5, BOOL))
    polynomial: int
    initial_remainder: int
    final_xor_value: int
    data_reflected: bool
    remainder_reflected: bool


@dataclass(frozen=True)
class MirroringSessionConfig:
    """Where a mirroring session sends its copies."""

    FIELDS: ClassVar = ((1, I32), (2, I32))
    port: int | None = None
    mgid: int | None = None


def _codes(names: str, first: int = 1) -> dict[int, str]:
    return dict(enumerate(names.split(), start=first))


TABLE = "table"
CODES = {
    TABLE: {
        **_codes(
            "TABLE_FULL INVALID_HANDLE EXPIRED_HANDLE COUNTERS_DISABLED METERS_DISABLED AGEING_DISABLED"
            " INVALID_TABLE_NAME INVALID_ACTION_NAME WRONG_TABLE_TYPE INVALID_MBR_HANDLE MBR_STILL_USED"
            " MBR_ALREADY_IN_GRP MBR_NOT_IN_GRP INVALID_GRP_HANDLE GRP_STILL_USED EMPTY_GRP DUPLICATE_ENTRY"
            " BAD_MATCH_KEY INVALID_METER_OPERATION DEFAULT_ACTION_IS_CONST DEFAULT_ENTRY_IS_CONST"
            " NO_DEFAULT_ENTRY INVALID_ACTION_PROFILE_NAME NO_ACTION_PROFILE_SELECTION"
            " IMMUTABLE_TABLE_ENTRIES BAD_ACTION_DATA NO_TABLE_KEY"
        ),
        100: "ERROR",
    },
    "counter": _codes("INVALID_COUNTER_NAME INVALID_INDEX ERROR"),
    "meter": _codes(
        "INVALID_METER_NAME INVALID_INDEX BAD_RATES_LIST INVALID_INFO_RATE_VALUE"
        " INVALID_BURST_SIZE_VALUE ERROR"
    ),
    "register": _codes("INVALID_REGISTER_NAME INVALID_INDEX ERROR"),
    "swap": _codes("CONFIG_SWAP_DISABLED ONGOING_SWAP NO_ONGOING_SWAP"),
    "device manager": _codes("ERROR"),
    "crc": _codes("INVALID_CALCULATION_NAME WRONG_TYPE_CALCULATION INVALID_CONFIG"),
    "Toeplitz hash": _codes("INVALID_CALCULATION_NAME WRONG_TYPE_CALCULATION INVALID_KEY"),
    "parser value set": _codes("INVALID_PARSE_VSET_NAME ERROR"),
    "PRE": _codes("TABLE_FULL INVALID_MGID INVALID_MGRP_HANDLE INVALID_L1_HANDLE ERROR"),
    "mirroring": _codes("SESSION_NOT_FOUND"),
}
"""The names of codes, by the kind of operation; the message is `Invalid … operation (CODE)`."""


@dataclass(frozen=True)
class _Method:
    service: str
    kinds: tuple[Kind, ...]
    result: Kind | None = None
    operation: str = ""


def _standard(operation: str, *kinds: Kind, result: Kind | None = None) -> _Method:
    return _Method("standard", kinds, result, operation)


def _replication(*kinds: Kind, result: Kind | None = None) -> _Method:
    return _Method("simple_pre_lag", (I32, *kinds), result, "PRE")


def _target(*kinds: Kind, result: Kind | None = None, operation: str = "") -> _Method:
    return _Method("simple_switch", kinds, result, operation)


# Context and name of the object come first.
_OF = (I32, TEXT)
_METHODS = {
    "bm_mt_get_num_entries": _standard(TABLE, *_OF, result=I64),
    "bm_mt_clear_entries": _standard(TABLE, *_OF, BOOL),
    "bm_mt_add_entry": _standard(TABLE, *_OF, [MatchParam], TEXT, [BINARY], Options, result=I32),
    "bm_mt_set_default_action": _standard(TABLE, *_OF, TEXT, [BINARY]),
    "bm_mt_reset_default_entry": _standard(TABLE, *_OF),
    "bm_mt_delete_entry": _standard(TABLE, *_OF, I32),
    "bm_mt_modify_entry": _standard(TABLE, *_OF, I32, TEXT, [BINARY]),
    "bm_mt_set_entry_ttl": _standard(TABLE, *_OF, I32, I32),
    "bm_mt_act_prof_add_member": _standard(TABLE, *_OF, TEXT, [BINARY], result=I32),
    "bm_mt_act_prof_delete_member": _standard(TABLE, *_OF, I32),
    "bm_mt_act_prof_modify_member": _standard(TABLE, *_OF, I32, TEXT, [BINARY]),
    "bm_mt_act_prof_create_group": _standard(TABLE, *_OF, result=I32),
    "bm_mt_act_prof_delete_group": _standard(TABLE, *_OF, I32),
    "bm_mt_act_prof_add_member_to_group": _standard(TABLE, *_OF, I32, I32),
    "bm_mt_act_prof_remove_member_from_group": _standard(TABLE, *_OF, I32, I32),
    "bm_mt_act_prof_get_members": _standard(TABLE, *_OF, result=[Member]),
    "bm_mt_act_prof_get_member": _standard(TABLE, *_OF, I32, result=Member),
    "bm_mt_act_prof_get_groups": _standard(TABLE, *_OF, result=[MemberGroup]),
    "bm_mt_act_prof_get_group": _standard(TABLE, *_OF, I32, result=MemberGroup),
    "bm_mt_indirect_add_entry": _standard(TABLE, *_OF, [MatchParam], I32, Options, result=I32),
    "bm_mt_indirect_delete_entry": _standard(TABLE, *_OF, I32),
    "bm_mt_indirect_set_default_member": _standard(TABLE, *_OF, I32),
    "bm_mt_indirect_reset_default_entry": _standard(TABLE, *_OF),
    "bm_mt_indirect_ws_add_entry": _standard(TABLE, *_OF, [MatchParam], I32, Options, result=I32),
    "bm_mt_indirect_ws_set_default_group": _standard(TABLE, *_OF, I32),
    "bm_mt_read_counter": _standard(TABLE, *_OF, I32, result=CounterValue),
    "bm_mt_reset_counters": _standard(TABLE, *_OF),
    "bm_mt_write_counter": _standard(TABLE, *_OF, I32, CounterValue),
    "bm_mt_set_meter_rates": _standard(TABLE, *_OF, I32, [MeterRate]),
    "bm_mt_get_meter_rates": _standard(TABLE, *_OF, I32, result=[MeterRate]),
    "bm_mt_get_entries": _standard(TABLE, *_OF, result=[Entry]),
    "bm_mt_get_entry": _standard(TABLE, *_OF, I32, result=Entry),
    "bm_mt_get_default_entry": _standard(TABLE, *_OF, result=ActionEntry),
    "bm_mt_get_entry_from_key": _standard(TABLE, *_OF, [MatchParam], Options, result=Entry),
    "bm_counter_read": _standard("counter", *_OF, I32, result=CounterValue),
    "bm_counter_reset_all": _standard("counter", *_OF),
    "bm_counter_write": _standard("counter", *_OF, I32, CounterValue),
    "bm_load_new_config": _standard("swap", TEXT),
    "bm_swap_configs": _standard("swap"),
    "bm_meter_array_set_rates": _standard("meter", *_OF, [MeterRate]),
    "bm_meter_set_rates": _standard("meter", *_OF, I32, [MeterRate]),
    "bm_meter_get_rates": _standard("meter", *_OF, I32, result=[MeterRate]),
    "bm_register_read": _standard("register", *_OF, I32, result=I64),
    "bm_register_read_all": _standard("register", *_OF, result=[I64]),
    "bm_register_write": _standard("register", *_OF, I32, I64),
    "bm_register_reset": _standard("register", *_OF),
    "bm_parse_vset_add": _standard("parser value set", *_OF, BINARY),
    "bm_parse_vset_remove": _standard("parser value set", *_OF, BINARY),
    "bm_parse_vset_get": _standard("parser value set", *_OF, result=[BINARY]),
    "bm_parse_vset_clear": _standard("parser value set", *_OF),
    "bm_dev_mgr_add_port": _standard("device manager", TEXT, I32, TEXT),
    "bm_dev_mgr_remove_port": _standard("device manager", I32),
    "bm_dev_mgr_show_ports": _standard("device manager", result=[PortInfo]),
    "bm_mgmt_get_info": _standard("", result=Config),
    "bm_set_crc16_custom_parameters": _standard("crc", *_OF, Crc16Config),
    "bm_set_crc32_custom_parameters": _standard("crc", *_OF, Crc32Config),
    "bm_set_toeplitz_hash_key": _standard("Toeplitz hash", *_OF, BINARY),
    "bm_reset_state": _standard(""),
    "bm_get_config": _standard("", result=TEXT),
    "bm_get_config_md5": _standard("", result=BINARY),
    "bm_serialize_state": _standard("", result=TEXT),
    "bm_mc_mgrp_create": _replication(I32, result=I32),
    "bm_mc_mgrp_destroy": _replication(I32),
    "bm_mc_node_create": _replication(I32, TEXT, TEXT, result=I32),
    "bm_mc_node_associate": _replication(I32, I32),
    "bm_mc_node_dissociate": _replication(I32, I32),
    "bm_mc_node_destroy": _replication(I32),
    "bm_mc_node_update": _replication(I32, TEXT, TEXT),
    "bm_mc_set_lag_membership": _replication(I16, TEXT),
    "bm_mc_get_entries": _replication(result=TEXT),
    "mirroring_session_add": _target(I32, MirroringSessionConfig, operation="mirroring"),
    "mirroring_session_delete": _target(I32, operation="mirroring"),
    "mirroring_session_get": _target(I32, result=MirroringSessionConfig, operation="mirroring"),
    "set_egress_priority_queue_depth": _target(I32, I32, I32, result=I32),
    "set_egress_queue_depth": _target(I32, I32, result=I32),
    "set_all_egress_queue_depths": _target(I32, result=I32),
    "set_egress_priority_queue_rate": _target(I32, I32, I64, result=I32),
    "set_egress_queue_rate": _target(I32, I64, result=I32),
    "set_all_egress_queue_rates": _target(I64, result=I32),
    "get_time_elapsed_us": _target(result=I64),
    "get_time_since_epoch_us": _target(result=I64),
}

CONTEXT = 0
"""The only context that simple_switch has."""


class OperationError(Exception):
    """The switch refused an operation."""


class Switch:
    """The services of a switch."""

    def __init__(self, host: str, port: int) -> None:
        """Connect. Raises TTransportException when nothing listens there."""
        self._connection = Connection(host, port)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of any of the services.

        Raises:
            OperationError: the switch refused it with a code.
            TApplicationException: the switch refused it in words.
            TTransportException, TProtocolException: the connection failed.
        """
        spec = _METHODS[method]
        try:
            return self._connection.call(spec.service, method, spec.kinds, arguments, spec.result)
        except DeclaredError as error:
            name = CODES.get(spec.operation, {}).get(error.code, str(error.code))
            raise OperationError(f"Invalid {spec.operation} operation ({name})") from error

    def of(self, method: str, name: str, *arguments: Any) -> Any:
        """Call a method on the object with this name. Raises as :meth:`call`."""
        return self.call(method, CONTEXT, name, *arguments)
