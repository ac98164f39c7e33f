# SPDX-License-Identifier: Apache-2.0
"""The experiment schema as frozen typed objects: the keys of one YAML file.

The docstrings of models and fields are the descriptions in the JSON Schema.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from weir.controlplane.config.values import (
    LEARNED_FLOWS,
    MAX_DATAGRAM_BYTES,
    MAX_HOSTS,
    Address,
    Address6,
    BurstDepth,
    CongestionControl,
    DurationNs,
    HostNames,
    InterfaceName,
    KernelName,
    LineRateBps,
    Mac,
    Name,
    PortNumber,
    PowerOfTwo,
    Protocol,
    QueueDepth,
    QueueDiscipline,
    RateBps,
    SharePpb,
    SizeBytes,
    SwitchAddress,
    SwitchPortNumber,
    Sysctl,
    SysctlValue,
    TimeNs,
    Verdict,
    VerdictText,
    max_datagram_bytes,
)

MeterType = Literal["sr2c", "sr3c", "tr3c"]
IpVersion = Annotated[Literal[4, 6], Field(examples=[6])]


DEFAULT_HASH_CELLS = 64
"""Cells that the flows of a per_flow_learned policer share until each has a separate one."""


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True
    )


class CableConfig(_Model):
    """The cable from an interface of this machine to a port of a switch that runs already."""

    port: SwitchPortNumber
    """The switch's port."""
    interface: InterfaceName
    """The interface of this machine. A run takes it for itself: it must have no addresses."""


class PortSettingsConfig(_Model):
    """What a port of a Tofino is set to, before it is enabled."""

    speed: RateBps
    """Its speed: 1, 10, 25, 40, 50, 100, 200 or 400 Gbit/s, as the chip and the cable have it."""
    fec: Literal["none", "firecode", "reed_solomon"] = "none"
    """Forward error correction: that of the other end."""
    autonegotiation: Literal["default", "on", "off"] = "default"
    """By default what the switch does for this speed and cable."""


class SwitchConfig(_Model):
    """Which switch polices."""

    target: Literal["softswitch", "bmv2", "tofino", "tofino2"] = "softswitch"
    """The switch that runs the pipeline: softswitch is the embedded one (weir-switch), bmv2 is
    simple_switch_grpc, tofino and tofino2 are under Stratum or bf_switchd. `weir run` starts the first two;
    any of them may run already when `weir apply` is told where."""
    address: SwitchAddress | None = None
    """P4Runtime of a switch that runs already; `weir run` then starts none, and `weir apply` needs no
    --switch. bfruntime://ADDRESS[:PORT] is the bf_switchd of a Tofino, by default at port 50052."""
    device_id: Annotated[StrictInt, Field(ge=0, le=2**64 - 1, examples=[1])] = 1
    """Its device id; of a bf_switchd by default 0."""
    thrift_port: PortNumber | None = None
    """Thrift port of a bmv2 that runs on this machine, through which a run sets its queues."""
    ports: dict[Name, CableConfig] = {}
    """Where its ports are plugged in, by host; a run's collector is the host `collector`."""
    port_settings: dict[Name, PortSettingsConfig] = {}
    """By host or collector, the settings of its port that `weir apply` makes over BfRuntime; other ports stay
    as they are."""


class TunerConfig(_Model):
    """A program on a host that sets one of its settings by the class of a flow, which it predicts from the
    state of the flow's socket, as BBR-ML does with BBR's cwnd_gain by the bottleneck's buffer."""

    flow: Annotated[StrictStr, Field(examples=["bbr"])]
    """TCP flow that the host sends, with a congestion control of the BBR family."""
    classifier: Annotated[StrictStr, Field(examples=["bbr-ml.classifier.json"])]
    """File of `weir classifier train`. Its path is seen from this file's folder."""
    sysctl: Sysctl = "net.ipv4.tcp_bbr_cwnd_gain"
    """The setting of the host's network namespace; the default is that of a kernel with
    bbr-cwnd-gain.patch. Each phase begins with its value at the start of the run."""
    values: Annotated[dict[StrictStr, SysctlValue], Field(min_length=2, examples=[{"0.01 BDP": 100}])]
    """Its value for each class of the classifier."""
    every: TimeNs = 1_000_000_000
    """Time from one decision to the next, each by the samples since the one before, ten a second."""
    latency: TimeNs = 0
    """How long each decision takes in addition to its processing, which takes no time in virtual time."""


class ReceiveQueueConfig(_Model):
    """A queue of the host's kernel for what it receives, as an access link with active queue management has.
    Frames reach it once they have passed the switch and the host's capture."""

    discipline: QueueDiscipline
    """tc(8)'s words for the queueing discipline, which the host's kernel must have."""
    rate: RateBps
    """Rate at which frames leave it, counted without preamble and FCS, as policers count them."""


class HostConfig(_Model):
    """A host in a network namespace of its own, and the switch's egress queue towards it."""

    delay: TimeNs = 0
    """One-way delay from the switch to the host."""
    rate: RateBps | None = None
    """Rate of the switch's egress queue towards the host; without it the link is not shaped."""
    burst: BurstDepth | None = None
    """Token bucket of that queue, a size or a time at its rate; needs a rate."""
    queue: QueueDepth | None = None
    """What may wait in that queue; the next frame is dropped at the tail. Needs a rate. A size, a time at the
    rate, `N burst`, or `N BDP`: the rate times the delay of the host and of those that send to it."""
    queue_packets: Annotated[StrictInt | None, Field(ge=1, le=2**31 - 1, examples=[100])] = None
    """Packets that may wait in that queue. Needs a rate."""
    jitter: TimeNs = 0
    """Added to the delay of each frame to the host, uniform from 0 to this; frames keep their order."""
    reorder: StrictBool = False
    """Whether jitter may change the order of the frames to the host."""
    loss: SharePpb = 0
    """Share of the frames to the host that its link loses at random; no report tells of them."""
    receive_queue: ReceiveQueueConfig | None = None
    """A queue of the host's kernel behind its capture."""
    line_rate: LineRateBps | None = None
    """Bit rate of the line between host and switch, in both directions, with Ethernet's overhead of 24 bytes
    for each frame; or `unlimited`. By default 10 Gbit/s in virtual time, where a window would otherwise leave
    in one instant, and unlimited in real time."""
    packet_cost: TimeNs = 0
    """Time that the host needs for each frame that it sends, in addition to its time on the line; a host with
    a cost has a line, by default of 10 Gbit/s."""
    address: Address | None = None
    """IPv4 address; in a run, of 10.0.0.0/24. Without it the next free one of 10.0.0.0/24."""
    address6: Address6 | None = None
    """IPv6 address, which policers match as they match the IPv4 address. Without it the host has none, and no
    flow of `ip_version: 6`."""
    mac: Mac | None = None
    """MAC address, of a host that is not `weir run`'s. Without it the one that `weir run` would give."""
    port: SwitchPortNumber | None = None
    """Switch port that the host is behind, if `weir run` has not numbered them: by their order, from 1."""
    sysctl: dict[Sysctl, SysctlValue] = {}
    """Settings of its network namespace by the names of sysctl(8), such as net.ipv4.tcp_ecn; its other
    settings are the same on every machine."""
    tuner: TunerConfig | None = None
    """Changes one of its settings while a flow runs."""


class WritesConfig(_Model):
    """An application that writes so much each time, at moments that do not depend on the network."""

    size: Annotated[SizeBytes, Field(ge=1, le=10**9)]
    """What it writes each time; what the network has not taken yet delays the next write."""
    every: TimeNs
    """Time from one write to the next."""
    on: TimeNs | None = None
    """For so long it writes, beginning with a write; then not for `off`. Without both it never stops."""
    off: TimeNs | None = None
    """For so long it does not."""


class FlowConfig(_Model):
    """One TCP connection, as fast as congestion control and application allow; or UDP, paced or recorded."""

    name: Name
    """Unique in the experiment."""
    source: Annotated[StrictStr, Field(alias="from", examples=["server1"])]
    """Host that sends the data."""
    destination: Annotated[StrictStr, Field(alias="to", examples=["client"])]
    """Host that receives the data."""
    protocol: Annotated[Literal["tcp", "udp"], Field(examples=["tcp"])] = "tcp"
    """udp needs a rate or a replay, and sends on whatever is lost."""
    ip_version: IpVersion = 4
    """Version of IP that carries it; 6 needs an `address6` of both hosts."""
    congestion_control: CongestionControl = "cubic"
    """Congestion control of a TCP sender, by the kernel's name."""
    start: TimeNs = 0
    """When the flow starts, from the start of its phase."""
    duration: DurationNs
    """How long the flow sends."""
    measured: StrictBool = False
    """Whether the flow is in a campaign's figures, and the detectors compare it with others pairwise."""
    rate: RateBps | None = None
    """Application limit: the sender writes no faster than this on average, 131 kB at a time (`writes` has
    other sizes). Of UDP, the rate of its payload."""
    pacing: RateBps | None = None
    """The kernel paces the sender's packets to no more than this (SO_MAX_PACING_RATE)."""
    writes: WritesConfig | None = None
    """Application limit of a TCP flow: writes of a size at an interval, all the time or on and off."""
    replay: Annotated[StrictStr | None, Field(examples=["video.replay"])] = None
    """File of `weir trace` that the flow plays, `from` as the recorded server and `to` as its client, for at
    most `duration`; of the flow's protocol. Its path is seen from this file's folder."""
    datagram: Annotated[SizeBytes, Field(ge=16, le=MAX_DATAGRAM_BYTES)] = MAX_DATAGRAM_BYTES
    """Payload of each UDP datagram; the default fills a frame."""

    @property
    def datagram_bytes(self) -> int:
        """Payload of each UDP datagram, limited to what fits one packet."""
        return min(self.datagram, max_datagram_bytes(self.ip_version))


class BackgroundConfig(_Model):
    """Many flows of TCP or UDP from one host to another, drawn from the seed: Poisson arrivals, sizes of a
    bounded Pareto distribution. They are in captures and in the law of conservation, but no flows of their
    own in the result."""

    name: Name
    """Unique in the experiment."""
    source: Annotated[StrictStr, Field(alias="from", examples=["server1"])]
    """Host that sends the data."""
    destination: Annotated[StrictStr, Field(alias="to", examples=["client"])]
    """Host that receives the data."""
    ip_version: IpVersion = 4
    """Version of IP that carries it; 6 needs an `address6` of both hosts."""
    protocol: Annotated[Literal["tcp", "udp"], Field(examples=["tcp"])] = "tcp"
    """udp needs a pacing, at which each flow sends its datagrams whatever is lost."""
    congestion_control: CongestionControl = "cubic"
    """Congestion control of a TCP sender, by the kernel's name."""
    start: TimeNs = 0
    """When the first flows may start, from the start of the phase."""
    duration: DurationNs
    """How long flows start; then what is left of them is cut off."""
    rate: RateBps
    """What all flows together offer on average, in payload; exact for each seed."""
    mean_size: Annotated[SizeBytes, Field(ge=1000, le=10**9)] = 200_000
    """Mean payload of a flow."""
    largest_size: Annotated[SizeBytes, Field(ge=2000, le=10**12)] = 20_000_000
    """The bound of the distribution."""
    shape: Annotated[float, Field(gt=1, le=10, examples=[1.2])] = 1.2
    """Exponent of the distribution; the nearer to 1, the heavier its tail."""
    pacing: RateBps | None = None
    """No flow sends faster than this: the kernel paces its packets, or of UDP the sender its datagrams."""


class MatchConfig(_Model):
    """Traffic that meets a policer: all named criteria hold; one that is not named matches everything.

    IPv4 and IPv6 alike; without hosts that is neighbour discovery (ICMPv6) too.
    """

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


class VerdictConfig(_Model):
    """What happens to packets of each colour: pass, drop, remark_dscp N, mark_ce, mark_ce_or_drop.

    mark_ce marks packets of ECN-capable transports (RFC 3168); the others pass, or are dropped.
    """

    green: VerdictText = Verdict("pass")
    """Packets that conform."""
    yellow: VerdictText = Verdict("pass")
    """Packets beyond the committed rate that the second bucket holds; a sr2c meter has none."""
    red: VerdictText = Verdict("drop")
    """Packets beyond both."""


class ReportsConfig(_Model):
    """What of a policer's packets the switch reports to a collector."""

    drops: StrictBool = True
    """Every packet that the policer dropped."""
    enqueues: Annotated[StrictInt | None, Field(ge=1, le=65_535, examples=[100])] = None
    """Packets that passed: the first of each flow and then each so-many-th; 1 reports all. Else none."""
    congested_at: Annotated[StrictInt, Field(ge=0, le=2**24 - 1, examples=[50])] = 0
    """Queue occupancy, in the switch's units, from which a report says "congested"; 0: never."""
    collector: Name | None = None
    """One of `telemetry.collectors`; the first when not named."""


class PolicerConfig(_Model):
    """A meter without a queue: what does not conform meets its verdict."""

    name: Name
    """Unique in its phase."""
    meter: Annotated[MeterType, Field(examples=["sr2c"])] = "sr2c"
    """sr2c: one rate, two colours (the plain token bucket). sr3c: one rate, two bursts, three colours
    (RFC 2697). tr3c: two rates, three colours (RFC 2698). One experiment has sr3c or tr3c, not both."""
    rate: RateBps
    """Committed rate, of Ethernet frames without FCS."""
    burst: BurstDepth
    """Committed burst, a size or a time at the rate; the bucket starts full."""
    peak_rate: RateBps | None = None
    """Peak rate of a tr3c meter: beyond it packets are red."""
    peak_burst: BurstDepth | None = None
    """Peak burst of a tr3c meter, a size or a time at the peak rate."""
    excess_burst: BurstDepth | None = None
    """Excess burst of a sr3c meter, a size or a time at the rate."""
    colour_aware: StrictBool = False
    """Packets come in with the colour that their DSCP's drop precedence says (RFC 2597: AFx2 is yellow, AFx3
    red, all else green) and leave the meter with no better one, as RFC 2697 and RFC 2698 have it."""
    length: Literal["frame", "l1", "ip"] = "frame"
    """What is metered: the Ethernet frame without FCS, with what it takes on the line, or the IP packet."""
    mode: Annotated[Literal["shared", "per_flow_hashed", "per_flow_learned"], Field(examples=["shared"])] = (
        "shared"
    )
    """shared: all matching flows in one bucket. per_flow_hashed: a 5-tuple's hash picks one of `cells`.
    per_flow_learned: each flow gets a bucket of its own, and until then one of `cells`."""
    cells: PowerOfTwo | None = None
    """Buckets that hashes pick from, a power of two. Each has the rate and burst above."""
    flows: Annotated[StrictInt | None, Field(ge=1, le=LEARNED_FLOWS, examples=[1000])] = None
    """Flows of a per_flow_learned policer that can have a bucket of their own at a time. The switch holds
    16384 of all learned policers of a phase, and 4096 of IPv6."""
    idle: TimeNs = 60 * 10**9
    """A learned flow that sends nothing for so long loses its bucket to others; 0 s: never."""
    verdict: VerdictConfig = VerdictConfig()
    """What happens to each colour."""
    reports: ReportsConfig = ReportsConfig()
    """What is reported."""
    match: Annotated[tuple[MatchConfig, ...], Field(min_length=1, examples=[[{}]])]
    """Traffic that meets this policer: any of these. The first policer of a phase that matches has it."""

    @property
    def hash_cells(self) -> int:
        """Number of meter cells that a hash selects from; 1 for a shared policer."""
        if self.mode == "shared":
            return 1
        return self.cells or DEFAULT_HASH_CELLS

    @property
    def meter_cells(self) -> int:
        """All meter cells of the policer, a power of two: hashed ones, then those of learned flows."""
        wanted = self.hash_cells + (self.flows or 0 if self.mode == "per_flow_learned" else 0)
        return 1 << (wanted - 1).bit_length()

    @property
    def dropped_colours(self) -> tuple[str, ...] | None:
        """Colours whose packets are dropped; None when it also depends on the packets' ECN field."""
        verdicts = {colour: getattr(self.verdict, colour).kind for colour in ("green", "yellow", "red")}
        if "mark_ce_or_drop" in verdicts.values():
            return None
        return tuple(colour for colour, kind in verdicts.items() if kind == "drop")

    @property
    def plain(self) -> bool:
        """Whether it is a plain token bucket: non-conforming packets are dropped, others pass unchanged."""
        return self.meter == "sr2c" and (str(self.verdict.green), str(self.verdict.red)) == ("pass", "drop")


_Changed = TypeVar("_Changed", PolicerConfig, HostConfig)


class ChangeConfig(_Model):
    """A policer, or the switch's link to a host, as it is from some time of its phase on; what is not named
    stays as it was."""

    at: TimeNs
    """When, from the start of the phase."""
    policer: Annotated[StrictStr | None, Field(examples=["name"])] = None
    """The policer that changes; either this or `host`."""
    host: Annotated[StrictStr | None, Field(examples=["client"])] = None
    """The host whose link changes, with the queue to it. What the queue holds at most stays."""
    rate: RateBps | None = None
    """New committed rate, or rate of the queue."""
    burst: BurstDepth | None = None
    """New committed burst, or token bucket of the queue."""
    delay: TimeNs | None = None
    """New delay of the link."""
    jitter: TimeNs | None = None
    """New jitter of the link."""
    loss: SharePpb | None = None
    """New random loss of the link."""
    peak_rate: RateBps | None = None
    """New peak rate."""
    peak_burst: BurstDepth | None = None
    """New peak burst."""
    excess_burst: BurstDepth | None = None
    """New excess burst."""
    match: Annotated[tuple[MatchConfig, ...] | None, Field(min_length=1, examples=[[{}]])] = None
    """New membership: the traffic that meets the policer from now on."""

    @property
    def settings(self) -> dict[str, Any]:
        """The new values by key."""
        return {
            name: value for name, value in self if name not in {"at", "policer", "host"} and value is not None
        }

    def applied_to(self, config: _Changed) -> _Changed:
        """The policer or host after this change."""
        return config.model_copy(update=self.settings)


class PhaseConfig(_Model):
    """One part of the run: all flows, under these policers."""

    name: Name
    """Unique in the experiment."""
    policers: tuple[PolicerConfig, ...] = ()
    """In order of precedence."""
    changes: tuple[ChangeConfig, ...] = ()
    """What changes in the middle of the phase, in order of time."""


class CollectorConfig(_Model):
    """A collector that listens already; `weir run` starts one of its own instead."""

    port: SwitchPortNumber
    """Switch port that it is behind."""
    mac: Mac
    """Its MAC address, or that of the next router."""
    address: Address
    """Its IPv4 address."""
    udp_port: PortNumber = 32_766
    """UDP port that it listens on."""


class TelemetryConfig(_Model):
    """What the switch reports."""

    truncate: SizeBytes = 128
    """Bytes of each reported packet that its report carries, from its Ethernet header."""
    port: PortNumber = 32_766
    """UDP port that the run's collector listens on."""
    collectors: Annotated[dict[Name, CollectorConfig], Field(max_length=15)] = {}
    """Collectors by name, of a switch that `weir apply` configures. Without them there is one, behind the
    port after the hosts'."""


class CaptureConfig(_Model):
    """How the hosts' traffic is captured."""

    truncate: Annotated[SizeBytes, Field(ge=94, le=65_535)] = 128
    """Bytes of each packet in the captures; 94 hold Ethernet, IPv4 and TCP headers with all options; with
    IPv6 114 do."""
    buffer: Annotated[SizeBytes, Field(ge=2**20, le=2**30)] = 32 * 2**20
    """The kernel's buffer for each capture."""
    sockets: TimeNs = 100_000_000
    """Time from one sample of the sending sockets' state to the next."""
    keep: Literal["all", "results"] = "all"
    """results: captures are deleted once they are analysed. From hosts over SSH only the times, lengths and
    headers of packets come then; account, verdicts and all other results are those of whole captures."""


class AnalysisConfig(_Model):
    """How a run is analysed."""

    detectors: Annotated[tuple[StrictStr, ...], Field(examples=[["shared", "wehey_loss_trend"]])] = (
        "wehey_loss_trend",
        "shared",
    )
    """Detectors that judge each pair of measured flows, by the names that `weir detect` lists; or none."""


class ExperimentConfig(_Model):
    """A whole experiment file."""

    name: Name
    """Names the directory of its runs."""
    description: StrictStr = ""
    """What the experiment is for."""
    seed: Annotated[StrictInt, Field(ge=0, le=2**63 - 1, examples=[1])] = 1
    """Seed of every random choice of the run."""
    time: Literal["real", "virtual"] = "real"
    """Virtual time advances only when everything waits: a run on a kernel of `weir kernel build`, which the
    load of the machine does not change."""
    kernel: KernelName | None = None
    """Name of the kernel of a run in virtual time (`weir kernel list`); by default 6.12."""
    switch: SwitchConfig = SwitchConfig()
    hosts: Annotated[dict[Name, HostConfig], Field(min_length=2, max_length=MAX_HOSTS)]
    """Hosts by name; each has a network namespace and a switch port."""
    flows: Annotated[tuple[FlowConfig, ...], Field(min_length=1)]
    """Traffic; each flow runs once in every phase."""
    background: tuple[BackgroundConfig, ...] = ()
    """Further traffic, drawn anew for each phase."""
    policers: tuple[PolicerConfig, ...] | None = None
    """Policers of an experiment without phases."""
    phases: Annotated[tuple[PhaseConfig, ...] | None, Field(min_length=1)] = None
    """Parts of the run, one after the other. Without them there is one, named main."""
    telemetry: TelemetryConfig = TelemetryConfig()
    capture: CaptureConfig = CaptureConfig()
    analysis: AnalysisConfig = AnalysisConfig()

    @property
    def phase_duration(self) -> int:
        """Nanoseconds from the start of a phase to the end of its last flow."""
        ends = [flow.start + flow.duration for flow in self.flows]
        return max(*ends, *(background.start + background.duration for background in self.background), 0)

    def effective_phases(self) -> tuple[PhaseConfig, ...]:
        """The phases of the run; one named "main" when the file has none."""
        return (
            self.phases
            if self.phases is not None
            else (PhaseConfig(name="main", policers=self.policers or ()),)
        )
