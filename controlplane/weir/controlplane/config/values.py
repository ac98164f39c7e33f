# SPDX-License-Identifier: Apache-2.0
"""The value types of an experiment file: names, quantities with units, addresses, verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)

from weir.controlplane.units import (
    DEPTH_PATTERN,
    RATE,
    SHARE,
    SIZE,
    TIME,
    Burst,
    Depth,
    format_rate,
    format_share,
    format_size,
    format_time,
    parse_burst,
    parse_depth,
    parse_rate,
    parse_share,
    parse_size,
    parse_time,
)

FRAME_BYTES = 1514
"""The largest Ethernet frame without FCS at an MTU of 1500 bytes; the smallest bucket or queue."""

MAX_DATAGRAM_BYTES = 1472
"""UDP payload of an IPv4 packet of 1500 bytes without options."""

MAX_DATAGRAM6_BYTES = 1452
"""UDP payload of an IPv6 packet of 1500 bytes without extension headers."""

POLICER_CELLS = 65_536
"""Cells of the pipeline's policer meter."""

LEARNED_FLOWS = 16_384
"""Entries of the pipeline's table of learned IPv4 flows."""

LARGEST_PORT = 509
"""Largest port of the switch: 510 leads to the controller, and 511 is where packets are dropped."""

MAX_HOSTS = 250
"""Largest number of hosts in an experiment: they, the collector and the switch share one /24."""

PROTOCOLS: Mapping[str, int] = MappingProxyType({"tcp": 6, "udp": 17})
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}"
_QUEUE_DISCIPLINE = r"[a-z][a-z0-9_]{0,15}( [A-Za-z0-9_.%]+){0,20}"


def max_datagram_bytes(ip_version: int) -> int:
    """UDP payload of a packet of 1500 bytes of an IP version."""
    return MAX_DATAGRAM_BYTES if ip_version == 4 else MAX_DATAGRAM6_BYTES


def _kernel_name(value: object) -> str:
    """A kernel's name. The value of a variable may be a number, from which 6.1 and 6.10 are the same."""
    if isinstance(value, float):
        raise ValueError(f"{value!r} is a number; valid: the kernel's name in quotes, such as '{value}'")
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not the name of a kernel; valid: a name of `weir kernel list`")
    return value


def _matching(pattern: str, refusal: str) -> Callable[[str], str]:
    """A validator of text that `pattern` matches as a whole; its error is the value and `refusal`."""

    def validated(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(f"{value!r} {refusal}")
        return value

    return validated


_name = _matching(
    NAME_PATTERN,
    "cannot be a name (it becomes part of a path); "
    "valid: 1 to 32 of A-Z a-z 0-9 _ -, the first a letter or digit",
)
_sysctl = _matching(  # it becomes a path below /proc/sys/net
    r"net(\.[A-Za-z0-9_-]+)+", "is not a setting of a network namespace; valid: such as net.ipv4.tcp_ecn"
)
_congestion_control = _matching(
    r"[a-z][a-z0-9_]{0,15}",
    "cannot be a congestion control; valid: a name of the kernel's, such as 'bbr', 'cubic', 'reno'",
)
_queue_discipline = _matching(
    _QUEUE_DISCIPLINE,
    "cannot be a queueing discipline; "
    "valid: a name of tc(8), with its options, such as 'codel', 'fq_codel target 5ms ecn', 'pie'",
)


def _sysctl_value(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or "\n" in str(value):
        raise ValueError(f"{value!r} is not the value of a setting; valid: a whole number, or a line of text")
    return str(value)


def _rate(value: object) -> int:
    rate_bps = parse_rate(value)
    if rate_bps < 8:
        raise ValueError(
            f"{value} is less than one byte per second; valid: at least 8 bit/s, such as '40 Mbit/s'"
        )
    return rate_bps


UNLIMITED = 0
"""`line_rate: unlimited`, as a number."""


def _line_rate(value: object) -> int:
    if value in ("unlimited", UNLIMITED):
        return UNLIMITED
    rate_bps = _rate(value)
    if not 10**6 <= rate_bps <= 10**12:
        raise ValueError(f"{value} is no rate of a line; valid: unlimited, or 1 Mbit/s to 1 Tbit/s")
    return rate_bps


def _format_line_rate(rate_bps: int) -> str:
    return "unlimited" if rate_bps == UNLIMITED else format_rate(rate_bps)


def _duration(value: object) -> int:
    time_ns = parse_time(value)
    if time_ns == 0:
        raise ValueError(f"{value} is no duration; valid: more than 0 s, such as '40 s'")
    if time_ns % 10**9:
        raise ValueError(f"{value} is not whole seconds, as iperf3 counts; valid: such as '40 s'")
    return time_ns


def _protocol(value: object) -> int:
    if isinstance(value, str) and value.lower() in PROTOCOLS:
        return PROTOCOLS[value.lower()]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 255:
        raise ValueError(f"{value!r} is not an IP protocol; valid: tcp, udp or a number from 0 to 255")
    return int(value)


def _cells(value: int) -> int:
    if value < 2 or value > POLICER_CELLS // 2 or value & (value - 1):
        raise ValueError(
            f"{value} is no power of two that fits (a hash is masked to a cell); "
            f"valid: 2, 4, 8, … {POLICER_CELLS // 2}"
        )
    return value


@dataclass(frozen=True, slots=True)
class Verdict:
    """The treatment of packets of one colour; ``dscp`` is the argument of remark_dscp."""

    kind: Literal["pass", "drop", "remark_dscp", "mark_ce", "mark_ce_or_drop"]
    dscp: int | None = None

    def __str__(self) -> str:
        """The verdict as a config writes it."""
        return self.kind if self.dscp is None else f"{self.kind} {self.dscp}"


_VERDICTS = "valid: pass, drop, remark_dscp 0 to 63, mark_ce, mark_ce_or_drop"
_REMARK = re.compile(r"remark_dscp\s+(\d{1,2})")


def _verdict(value: object) -> Verdict:
    match value:
        case Verdict():
            return value
        case "pass" | "drop" | "mark_ce" | "mark_ce_or_drop":
            return Verdict(value)
        case str() if (remark := _REMARK.fullmatch(value)) and int(remark[1]) <= 63:
            return Verdict("remark_dscp", int(remark[1]))
    raise ValueError(f"{value!r} is no verdict; {_VERDICTS}")


def _address(value: str) -> str:
    try:
        return str(IPv4Address(value))
    except AddressValueError as error:
        raise ValueError(f"{value!r} is not an IPv4 address; valid: such as 10.0.0.1") from error


def _address6(value: str) -> str:
    try:
        return str(IPv6Address(value))
    except AddressValueError as error:
        raise ValueError(f"{value!r} is not an IPv6 address; valid: such as 2001:db8::1") from error


_MAC = r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}"


def _mac(value: str) -> str:
    if re.fullmatch(_MAC, value) is None or int(value[:2], 16) & 1:
        raise ValueError(f"{value!r} is not a station's MAC address; valid: such as 02:00:00:00:00:01")
    return value.lower()


_HOST = r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)"
_ENDPOINT = rf"{_HOST}:([0-9]{{1,5}})"
_INTERFACE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}"


def _endpoint(value: str) -> str:
    found = re.fullmatch(_ENDPOINT, value)
    if found is None or not 1 <= int(found[2]) <= 65_535:
        raise ValueError(f"{value!r} is not an address with a port; valid: such as 192.0.2.1:9559")
    return value


BFRUNTIME = "bfruntime://"
"""Begins the address of a bf_switchd, which speaks BfRuntime and not P4Runtime."""
_BFRUNTIME_PORT = 50052


def bfruntime_endpoint(address: str) -> str | None:
    """The address and port of a bf_switchd; None for an address of P4Runtime. Raises ValueError."""
    if not address.startswith(BFRUNTIME):
        return None
    rest = address.removeprefix(BFRUNTIME)
    with_port = rest if re.search(r":[0-9]+$", rest.rpartition("]")[2]) else f"{rest}:{_BFRUNTIME_PORT}"
    try:
        return _endpoint(with_port)
    except ValueError as error:
        message = f"{address!r} is not the address of a bf_switchd; valid: such as {BFRUNTIME}192.0.2.1"
        raise ValueError(message) from error


def switch_address(value: str) -> str:
    """The address of a switch in full, of P4Runtime or of a bf_switchd. Raises ValueError."""
    found = bfruntime_endpoint(value)
    return _endpoint(value) if found is None else f"{BFRUNTIME}{found}"


def _interface(value: str) -> str:
    if re.fullmatch(_INTERFACE, value) is None:
        raise ValueError(f"{value!r} is not an interface of Linux; valid: such as enp3s0")
    return value


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _json(example: str, pattern: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example], **more})


Name = Annotated[
    StrictStr,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}$", "examples": ["name"]}),
]
Sysctl = Annotated[
    StrictStr,
    AfterValidator(_sysctl),
    WithJsonSchema(
        {"type": "string", "pattern": r"^net(\.[A-Za-z0-9_-]+)+$", "examples": ["net.ipv4.tcp_ecn"]}
    ),
]
SysctlValue = Annotated[
    str,
    BeforeValidator(_sysctl_value),
    WithJsonSchema({"type": ["integer", "string"], "examples": [1]}),
]
KernelName = Annotated[
    str,
    BeforeValidator(_kernel_name),
    WithJsonSchema({"type": ["string", "number"], "examples": ["6.12"]}),  # a number's text is the name
]
RateBps = Annotated[
    int, BeforeValidator(_rate), PlainSerializer(format_rate), _json("40 Mbit/s", RATE.pattern)
]
LineRateBps = Annotated[
    int,
    BeforeValidator(_line_rate),
    PlainSerializer(_format_line_rate),
    _json("10 Gbit/s", rf"({RATE.pattern})|(^unlimited$)"),
]
SizeBytes = Annotated[
    int, BeforeValidator(parse_size), PlainSerializer(format_size), _json("100 kB", SIZE.pattern)
]
TimeNs = Annotated[
    int, BeforeValidator(parse_time), PlainSerializer(format_time), _json("20 ms", TIME.pattern)
]
SharePpb = Annotated[
    int, BeforeValidator(parse_share), PlainSerializer(format_share), _json("0.1 %", SHARE.pattern)
]
DurationNs = Annotated[
    int, BeforeValidator(_duration), PlainSerializer(format_time), _json("40 s", TIME.pattern)
]
BurstDepth = Annotated[
    Burst,
    BeforeValidator(parse_burst),
    PlainSerializer(str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": TIME.pattern},
                {"type": "string", "pattern": SIZE.pattern},
            ],
            "examples": ["20 ms"],
        }
    ),
]
QueueDepth = Annotated[
    Depth, BeforeValidator(parse_depth), PlainSerializer(str), _json("100 kB", DEPTH_PATTERN)
]
HostNames = Annotated[
    tuple[StrictStr, ...],
    BeforeValidator(_one_or_many),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
            "examples": [["server1"]],
        }
    ),
]
Protocol = Annotated[
    int,
    BeforeValidator(_protocol),
    WithJsonSchema(
        {
            "anyOf": [{"enum": ["tcp", "udp"]}, {"type": "integer", "minimum": 0, "maximum": 255}],
            "examples": ["tcp"],
        }
    ),
]
PortNumber = Annotated[StrictInt, Field(ge=1, le=65_535, examples=[5201])]
SwitchPortNumber = Annotated[StrictInt, Field(ge=1, le=LARGEST_PORT, examples=[1])]
Address = Annotated[
    StrictStr,
    AfterValidator(_address),
    WithJsonSchema({"type": "string", "format": "ipv4", "examples": ["10.0.0.1"]}),
]
Address6 = Annotated[
    StrictStr,
    AfterValidator(_address6),
    WithJsonSchema({"type": "string", "format": "ipv6", "examples": ["2001:db8::1"]}),
]
Mac = Annotated[
    StrictStr,
    AfterValidator(_mac),
    WithJsonSchema({"type": "string", "pattern": f"^{_MAC}$", "examples": ["02:00:00:00:00:01"]}),
]
Endpoint = Annotated[StrictStr, AfterValidator(_endpoint), _json("192.0.2.1:9559", f"^{_ENDPOINT}$")]
SwitchAddress = Annotated[
    StrictStr,
    AfterValidator(switch_address),
    _json("192.0.2.1:9559", rf"^({_ENDPOINT}|{BFRUNTIME}{_HOST}(:[0-9]{{1,5}})?)$"),
]
InterfaceName = Annotated[StrictStr, AfterValidator(_interface), _json("enp3s0", f"^{_INTERFACE}$")]
VerdictText = Annotated[
    Verdict,
    BeforeValidator(_verdict),
    PlainSerializer(str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(pass|drop|mark_ce|mark_ce_or_drop|remark_dscp\s+([0-9]|[1-5][0-9]|6[0-3]))$",
            "examples": ["drop"],
        }
    ),
]
PowerOfTwo = Annotated[StrictInt, AfterValidator(_cells), Field(examples=[64])]
QueueDiscipline = Annotated[
    StrictStr,
    AfterValidator(_queue_discipline),
    WithJsonSchema(
        {"type": "string", "pattern": f"^{_QUEUE_DISCIPLINE}$", "examples": ["fq_codel target 5ms ecn"]}
    ),
]
CongestionControl = Annotated[
    StrictStr,
    AfterValidator(_congestion_control),
    WithJsonSchema({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,15}$", "examples": ["bbr"]}),
]
