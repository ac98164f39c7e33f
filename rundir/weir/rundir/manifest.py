# SPDX-License-Identifier: Apache-2.0
"""`manifest.json` as models: configuration, versions and seeds of a run, and the switch's counters.

The run writes these models and the analysis reads them. Only fields that were set are written, so that a
reader can tell "unknown" from "none". Unknown fields are kept when a manifest is rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator

from weir.rundir.directory import RunDirectory
from weir.rundir.kernel import Kernel
from weir.rundir.meeting import Match
from weir.rundir.record import Record, read_record

SCHEMA_VERSION: Final = 1

State = Literal["running", "complete", "interrupted", "failed"]
Truth = Literal["shared", "separate"]


def _as_written(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    number = check(value)
    return value if isinstance(value, int) else number


Number = Annotated[float, WrapValidator(_as_written), PlainSerializer(lambda number: number)]
"""A float that is written to JSON as an integer if it was read as one."""


class ColourCount(Record):
    """One colour of a policer's counter."""

    packets: int = 0
    bytes: int = 0


class ColourCounters(Record):
    """Counts per colour, summed over the policer's cells."""

    green: ColourCount = ColourCount()
    yellow: ColourCount = ColourCount()
    red: ColourCount = ColourCount()

    @property
    def packets(self) -> int:
        """Packets of all three colours."""
        return self.green.packets + self.yellow.packets + self.red.packets

    def of(self, colours: Iterable[str]) -> ColourCount:
        """The sum over some of green, yellow, red."""
        by_colour = {"green": self.green, "yellow": self.yellow, "red": self.red}
        counts = [count for name, count in by_colour.items() if name in set(colours)]
        return ColourCount(
            packets=sum(count.packets for count in counts), bytes=sum(count.bytes for count in counts)
        )


class Buckets(Record):
    """Token buckets of a policer: as configured, and after the target's quantization ("effective")."""

    name: str
    index: int
    cells: int = 1
    rate_bps: Annotated[Number, Field(gt=0)]
    burst_bytes: Annotated[Number, Field(ge=0)]
    effective_rate_bps: Number | None = None
    effective_burst_bytes: Number | None = None
    mode: str = "shared"
    meter: str = "single_rate_two_colour"
    colour_aware: bool = False
    peak_rate_bps: Number | None = None
    peak_burst_bytes: Number | None = None
    effective_peak_rate_bps: Number | None = None
    effective_peak_burst_bytes: Number | None = None
    excess_burst_bytes: Number | None = None
    effective_excess_burst_bytes: Number | None = None


class Policer(Buckets):
    """One policer of a phase: its buckets, the traffic that meets it, and its counters."""

    dropped_colours: tuple[str, ...] | None = ("red",)
    """Colours that it drops; None if the packets' ECN field decides as well."""
    plain: bool = True
    """Whether it was a single token bucket without changes, and dropped all non-conforming packets."""
    match: tuple[Match, ...] | None = None
    """Traffic that meets it; the first matching policer of the phase applies. None if not recorded."""
    read_back_rate_bps: int | None = None
    read_back_burst_bytes: int | None = None
    read_back_peak_rate_bps: int | None = None
    read_back_peak_burst_bytes: int | None = None
    read_back_excess_burst_bytes: int | None = None
    counters: ColourCounters | None = None
    packets_met: int | None = None

    @property
    def applied_rate_bps(self) -> float:
        """The rate after the target's quantization."""
        return self.rate_bps if self.effective_rate_bps is None else self.effective_rate_bps

    @property
    def applied_burst_bytes(self) -> float:
        """The burst after the target's quantization."""
        return self.burst_bytes if self.effective_burst_bytes is None else self.effective_burst_bytes


class PlayedScript(Record):
    """The replay of a flow. A recording's origin, such as `captures`, is in further fields."""

    sha256: str = ""
    server_bytes: int = 0
    client_bytes: int = 0
    whole: bool = False
    writes: int = 0
    client_bytes_sent: int = 0
    late_max_s: float | None = None


class Flow(Record):
    """One configured flow: data goes from `src` to `dst`."""

    id: str
    name: str
    src_host: str
    dst_host: str
    src: str
    dst: str
    src_port: int
    dst_port: int
    protocol: int = 6
    cc: str | None = None
    measured: bool = False
    policer: str | None = None
    start_s: Number = 0.0
    duration_s: Number | None = None
    script: PlayedScript | None = None


class Pair(Record):
    """Two flows, and the ground truth of whether they share a policer."""

    flows: tuple[str, str]
    truth: Truth


class _Moment(Record):
    at_s: Number = 0.0


class _Change(_Moment):
    """A change during a phase; it took effect within both recorded intervals."""

    updates: int = 0
    realtime_ns: tuple[int, int] | None = None
    switch_clock_ns: tuple[int, int] | None = None


class Change(Buckets, _Change):
    """A policer from the change on."""

    match: bool = False
    """Whether the change replaced the policer's matches."""


class LinkChange(_Change):
    """The link to a host, and its queue, from the change on."""

    host: str
    rate_bps: int | None = None
    burst_bytes: int | None = None
    delay_s: Number = 0.0
    jitter_s: Number = 0.0
    loss: Number = 0.0


class Learned(Record):
    """The state of a policer that learns flows, at the end of a phase."""

    flows_with_cell: int
    cells_free: int
    flows_without_cell: int


class Background(Record):
    """One background of many randomly drawn flows: its schedule, and how much of it was sent."""

    id: str
    seed: int
    schedule_sha256: str
    flows: int
    offered_bytes: int
    complete: int
    cut: int
    failed: int
    late_max_s: float


class Phase(Record):
    """One phase of the experiment, with its policers and flows; times are CLOCK_REALTIME."""

    name: str
    start_ns: int | None = None
    end_ns: int | None = None
    policers: tuple[Policer, ...] = ()
    flows: tuple[Flow, ...] = ()
    pairs: tuple[Pair, ...] = ()
    changes: tuple[Change, ...] = ()
    link_changes: tuple[LinkChange, ...] = ()
    learned: dict[str, Learned] = Field(default_factory=dict)
    background: tuple[Background, ...] = ()


class ClockReading(Record):
    """The clock of a host compared with that of the machine that ran weir."""

    at_ns: int
    """When, by that machine's clock."""
    offset_s: float
    """The host's clock minus that one."""
    error_s: float
    """Largest error of the offset: half the round trip."""


class ReceiveQueue(Record):
    """A queue of a host's kernel behind its capture, and what it did with the frames that arrived."""

    discipline: str
    """In tc(8)'s words."""
    rate_bps: int
    sent: int
    """Frames that it passed on to the host."""
    dropped: int
    marked: int | None = None
    """Frames that it marked CE; None if tc does not say it of this discipline."""
    waiting: int = 0
    """Frames in it at the end of the run."""


class Host(Record):
    """One captured host; `pcap` is relative to the run directory."""

    name: str
    addresses: tuple[str, ...]
    pcap: str
    delay_s: Number = 0.0
    jitter_s: Number = 0.0
    reorder: bool = False
    """Whether jitter let its frames overtake each other."""
    rate_bps: int | None = None
    """Rate of the switch's queue to the host; None if it has no queue."""
    queue_bytes: int | None = None
    """Limit of that queue in bytes; None if it has none."""
    queue_packets: int | None = None
    """Limit of that queue in packets; None if it has none."""
    receive_queue: ReceiveQueue | None = None
    loss: Number = 0.0
    """Probability of random loss on its link, for frames towards it."""
    line_rate_bps: int | None = None
    """Bit rate of its line in both directions; None if that is unlimited."""
    packet_cost_s: Number = 0.0
    """Time that it needs for each frame that it sends, in addition to that on the line."""
    capture_received: int | None = None
    capture_drops: int | None = None
    capture_bytes: int | None = None
    """Size of the capture where it was made, if that is another machine."""
    fetched_bytes: int | None = None
    """Size of what came from there: the compressed capture, or the headers in it."""
    clock: tuple[ClockReading, ...] = ()
    """Of a host with a clock of its own."""


class PortStats(Record):
    """Counters of one switch port, as in the switch's `stats.json`."""

    port: int
    interface: str = ""
    up: bool = True
    rx_packets: int = 0
    rx_bytes: int = 0
    rx_overruns: int = 0
    rx_oversize: int = 0
    tx_packets: int = 0
    tx_bytes: int = 0
    tx_errors: int = 0
    tx_waiting: int = 0
    queue_drops: int = 0
    queue_drop_bytes: int = 0
    queued_packets: int = 0
    queued_bytes: int = 0
    in_flight: int = 0
    link_lost: int = 0


class SwitchStats(Record):
    """The switch's `stats.json`."""

    schema_version: int = Field(1, alias="schema")
    uptime_ns: int = 0
    ports: tuple[PortStats, ...] = ()
    dataplane: dict[str, int] = Field(default_factory=dict)

    @property
    def unreported_losses(self) -> int:
        """Packets that queues dropped without deflecting, or that links lost; no report covers these."""
        dropped = sum(port.queue_drops + port.link_lost for port in self.ports)
        return dropped - self.dataplane.get("deflected", 0)


class Switch(Record):
    """Counters of the switch over the whole run."""

    stats: SwitchStats | None = None
    reports_sent: int | None = None


class Software(Record):
    """The software that made a campaign's run; runs of different software are never mixed."""

    weir_version: str
    commit: str | None
    programs: dict[str, str]
    """First 16 hex digits of the SHA-256 of each compiled part."""

    def __str__(self) -> str:
        """One line for messages."""
        compiled = ", ".join(f"{name} {digest}" for name, digest in sorted(self.programs.items()))
        return f"weir {self.weir_version}, commit {self.commit or 'unknown'} ({compiled})"


class TestbedRecord(Record):
    """The testbed of a run, without what only its owner needs to know."""

    __test__ = False  # not a pytest class, although its name begins with Test

    name: str | None = None
    switch: str
    """The switch's P4Runtime address."""
    ports: dict[str, int]
    """Switch port of each host, and of the collector."""
    headers_only: bool | None = None
    """Whether the run's campaign keeps no captures, so that only their headers come."""


class CampaignRun(Record):
    """Identity of a run within its campaign. `wall_s` and `jobs` are set when it is complete."""

    run: str
    cell: dict[str, str]
    repeat: int
    config_digest: str
    software: Software
    wall_s: float | None = None
    jobs: int | None = None


class Delays(Record):
    """Delays of timed wake-ups of a process, in s: nearest-rank percentiles."""

    samples: int = 0
    p50_s: float = 0.0
    p99_s: float
    p999_s: float = 0.0
    max_s: float = 0.0


class Scheduling(Delays):
    """Wake-up delays over all phases, and per phase."""

    period_s: float | None = None
    phases: dict[str, Delays] = Field(default_factory=dict)
    stolen_share: float = 0.0
    """Steal time of a virtual machine, as a share of the processors' time."""


class VirtualTime(Record):
    """The kernel of a run in virtual time."""

    kernel: Kernel
    memory_mb: int
    epoch_ns: int | None = None
    """The guest's wall clock at its start, and so the base of all times of the run but its start and end."""


class Manifest(Record):
    """`manifest.json`."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    run_id: str
    """The name of its directory; in virtual time `virtual-` and a digest of experiment, replay files, kernel
    and memory."""
    weir_version: str = ""
    commit: str | None = None
    started_ns: int | None = None
    finished_ns: int | None = None
    """Both of the user's clock, in virtual time too."""
    complete: bool = False
    state: State | Literal[""] = ""
    error: str | None = None
    target: str = "softswitch"
    seed: int | None = None
    campaign: CampaignRun | None = None
    detectors: tuple[str, ...] | None = None
    """Pair detectors of the experiment; None if not recorded."""
    phases: tuple[Phase, ...] = ()
    hosts: tuple[Host, ...] = ()
    switch: Switch = Switch()
    valid: bool = True
    invalid_reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    scheduling: Scheduling | None = None
    virtual_time: VirtualTime | None = None
    """None for a run in real time."""
    testbed: TestbedRecord | None = None
    """None for a run whose hosts were namespaces of one machine."""
    digest: str | None = None
    """`weir.rundir.digest` of a run in virtual time, after its analysis."""


def read_manifest(run_dir: Path) -> Manifest:
    """Read `manifest.json` of a run directory; raises RunFileError."""
    return read_record(RunDirectory(run_dir).manifest, Manifest)
