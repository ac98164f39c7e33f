# SPDX-License-Identifier: Apache-2.0
"""The experiment schema as frozen typed objects: what one YAML file may say, and the units it says it in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)

from weir.controlplane.units import (
    RATE,
    SIZE,
    TIME,
    Burst,
    format_rate,
    format_size,
    format_time,
    parse_burst,
    parse_rate,
    parse_size,
    parse_time,
)

FRAME_BYTES = 1514
"""The largest Ethernet frame without FCS of a 1500-byte MTU: no bucket or queue may be smaller."""

POLICER_CELLS = 65_536
"""Cells of the pipeline's policer meter."""

MAX_HOSTS = 250
"""Hosts of one experiment: one /24 holds them and the collector."""

PROTOCOLS: Mapping[str, int] = MappingProxyType({"tcp": 6, "udp": 17})
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}"


def _name(value: str) -> str:
    if re.fullmatch(NAME_PATTERN, value) is None:
        raise ValueError(
            f"{value!r} cannot be a name (it becomes part of a path); "
            "valid: 1 to 32 of A-Z a-z 0-9 _ -, the first a letter or digit"
        )
    return value


def _congestion_control(value: str) -> str:
    if re.fullmatch(r"[a-z][a-z0-9_]{0,15}", value) is None:
        raise ValueError(
            f"{value!r} cannot be a congestion control; "
            "valid: a name of the kernel's, such as 'bbr', 'cubic', 'reno'"
        )
    return value


def _rate(value: object) -> int:
    rate_bps = parse_rate(value)
    if rate_bps < 8:
        raise ValueError(
            f"{value} is less than one byte per second; valid: at least 8 bit/s, such as '40 Mbit/s'"
        )
    return rate_bps


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


def _one_or_many(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _json(example: str, pattern: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example], **more})


Name = Annotated[
    StrictStr,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}$", "examples": ["name"]}),
]
RateBps = Annotated[
    int, BeforeValidator(_rate), PlainSerializer(format_rate), _json("40 Mbit/s", RATE.pattern)
]
SizeBytes = Annotated[
    int, BeforeValidator(parse_size), PlainSerializer(format_size), _json("100 kB", SIZE.pattern)
]
TimeNs = Annotated[
    int, BeforeValidator(parse_time), PlainSerializer(format_time), _json("20 ms", TIME.pattern)
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


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True
    )


class SwitchConfig(_Model):
    """Which switch polices."""

    target: Literal["softswitch"] = "softswitch"
    """The switch that runs the pipeline: softswitch is the embedded one (weir-switch)."""


class HostConfig(_Model):
    """A host in a network namespace of its own, and the switch's egress queue towards it."""

    delay: TimeNs = 0
    """One-way delay from the switch to the host."""
    rate: RateBps | None = None
    """Rate of the switch's egress queue towards the host; without it the link is not shaped."""
    burst: BurstDepth | None = None
    """Token bucket of that queue, a size or a time at its rate; needs a rate."""
    queue: SizeBytes | None = None
    """Bytes that may wait in that queue; the next frame is dropped at the tail. Needs a rate."""


class FlowConfig(_Model):
    """One TCP connection that sends as fast as its congestion control and its application allow."""

    name: Name
    """Unique in the experiment."""
    source: Annotated[StrictStr, Field(alias="from", examples=["server1"])]
    """Host that sends the data."""
    destination: Annotated[StrictStr, Field(alias="to", examples=["client"])]
    """Host that receives the data."""
    congestion_control: Annotated[
        StrictStr,
        AfterValidator(_congestion_control),
        WithJsonSchema({"type": "string", "pattern": "^[a-z][a-z0-9_]{0,15}$", "examples": ["bbr"]}),
    ] = "cubic"
    """Congestion control of the sender, by the kernel's name."""
    start: TimeNs = 0
    """When the flow starts, from the start of its phase."""
    duration: DurationNs
    """How long the flow sends."""
    measured: StrictBool = False
    """Whether the flow is one of those that the detectors compare pairwise."""
    rate: RateBps | None = None
    """Application limit: the sender writes no faster than this."""


class MatchConfig(_Model):
    """Traffic that meets a policer: all named criteria hold; one that is not named matches everything."""

    source: Annotated[HostNames | None, Field(alias="from")] = None
    """Host or hosts that send it."""
    destination: Annotated[HostNames | None, Field(alias="to")] = None
    """Host or hosts that it goes to."""
    protocol: Protocol | None = None
    """tcp, udp or an IP protocol number."""
    src_port: PortNumber | None = None
    """TCP or UDP source port."""
    dst_port: PortNumber | None = None
    """TCP or UDP destination port."""
    dscp: Annotated[StrictInt | None, Field(ge=0, le=63, examples=[46])] = None
    """Differentiated services code point."""


class PolicerConfig(_Model):
    """A token bucket without a queue: what does not conform is dropped (single rate, two colours)."""

    name: Name
    """Unique in its phase."""
    rate: RateBps
    """Committed rate, of Ethernet frames without FCS."""
    burst: BurstDepth
    """Committed burst, a size or a time at the rate; the bucket starts full."""
    mode: Annotated[Literal["shared", "per_flow_hashed"], Field(examples=["shared"])] = "shared"
    """shared: all matching flows in one bucket. per_flow_hashed: a 5-tuple's hash picks one of `cells`."""
    cells: Annotated[
        StrictInt | None,
        AfterValidator(lambda value: None if value is None else _cells(value)),
        Field(examples=[64]),
    ] = None
    """Buckets of a per_flow_hashed policer, a power of two. Each has the rate and burst above."""
    match: Annotated[tuple[MatchConfig, ...], Field(min_length=1, examples=[[{}]])]
    """Traffic that meets this policer: any of these. The first policer of a phase that matches has it."""


class PhaseConfig(_Model):
    """One part of the run: all flows, under these policers."""

    name: Name
    """Unique in the experiment."""
    policers: tuple[PolicerConfig, ...] = ()
    """In order of precedence."""


class TelemetryConfig(_Model):
    """What the switch reports."""

    truncate: SizeBytes = 128
    """Bytes of each dropped packet that its report carries, from its Ethernet header."""
    port: PortNumber = 32_766
    """UDP port that the collector listens on."""


class ExperimentConfig(_Model):
    """A whole experiment file."""

    name: Name
    """Names the directory of its runs."""
    description: StrictStr = ""
    """What the experiment is for."""
    seed: Annotated[StrictInt, Field(ge=0, le=2**63 - 1, examples=[1])] = 1
    """Seed of every random choice of the run."""
    switch: SwitchConfig = SwitchConfig()
    hosts: Annotated[dict[Name, HostConfig], Field(min_length=2, max_length=MAX_HOSTS)]
    """Hosts by name; each has a network namespace and a switch port."""
    flows: Annotated[tuple[FlowConfig, ...], Field(min_length=1)]
    """TCP connections; each runs once in every phase."""
    policers: tuple[PolicerConfig, ...] | None = None
    """Policers of an experiment without phases."""
    phases: Annotated[tuple[PhaseConfig, ...] | None, Field(min_length=1)] = None
    """Parts of the run, one after the other. Without them there is one, named main."""
    telemetry: TelemetryConfig = TelemetryConfig()

    def effective_phases(self) -> tuple[PhaseConfig, ...]:
        """The phases of the run; one named "main" when the file has none."""
        return (
            self.phases
            if self.phases is not None
            else (PhaseConfig(name="main", policers=self.policers or ()),)
        )
