# SPDX-License-Identifier: Apache-2.0
"""Reads and validates a run's `manifest.json` and `collector.json`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weir.analysis.detectors import RUN_DETECTORS
from weir.analysis.errors import RunFileError


class _Read(BaseModel):
    # Unknown fields of other versions are ignored, so that archived runs stay readable.
    model_config = ConfigDict(frozen=True, extra="ignore")


class ColourCount(_Read):
    """One cell of the policer's counter."""

    packets: int = 0
    bytes: int = 0


class ColourCounters(_Read):
    """The switch's counters per colour, summed over the policer's cells."""

    green: ColourCount = ColourCount()
    yellow: ColourCount = ColourCount()
    red: ColourCount = ColourCount()

    @property
    def packets(self) -> int:
        """Packets of all three colours."""
        return self.green.packets + self.yellow.packets + self.red.packets

    def of(self, colours: Iterable[str]) -> ColourCount:
        """The sum over some of green, yellow, red."""
        counts = [count for name, count in self if name in set(colours)]
        return ColourCount(
            packets=sum(count.packets for count in counts), bytes=sum(count.bytes for count in counts)
        )


class Match(_Read):
    """Traffic of a policer, by addresses and ports; None matches everything."""

    src: tuple[str, ...] | None = None
    dst: tuple[str, ...] | None = None
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    dscp: int | None = None


class Policer(_Read):
    """One policer of a phase: configured and effective values, and its counters."""

    name: str
    index: int
    cells: int = 1
    rate_bps: float = Field(gt=0)
    burst_bytes: float = Field(ge=0)
    effective_rate_bps: float | None = None
    effective_burst_bytes: float | None = None
    counters: ColourCounters | None = None
    packets_met: int | None = None
    dropped_colours: tuple[str, ...] | None = ("red",)
    """Colours that it dropped; None when the colour does not decide about a drop."""
    plain: bool = True
    """Whether it was one unchanged token bucket that dropped non-conforming packets."""
    match: tuple[Match, ...] | None = None
    """Traffic of this policer; the first policer that matches meters a packet. None: not in the manifest."""

    @property
    def applied_rate_bps(self) -> float:
        """The rate after the target's quantization."""
        return self.rate_bps if self.effective_rate_bps is None else self.effective_rate_bps

    @property
    def applied_burst_bytes(self) -> float:
        """The burst after the target's quantization."""
        return self.burst_bytes if self.effective_burst_bytes is None else self.effective_burst_bytes


class Flow(_Read):
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
    start_s: float = 0.0
    duration_s: float | None = None


class Pair(_Read):
    """Two flows; by the configuration they share a policer or do not."""

    flows: tuple[str, str]
    truth: Literal["shared", "separate"]


class Phase(_Read):
    """One phase of the experiment with its policers and flows; times are CLOCK_REALTIME."""

    name: str
    start_ns: int | None = None
    end_ns: int | None = None
    policers: tuple[Policer, ...] = ()
    flows: tuple[Flow, ...] = ()
    pairs: tuple[Pair, ...] = ()


class Host(_Read):
    """One captured host; `pcap` is relative to the run directory."""

    name: str
    addresses: tuple[str, ...]
    pcap: str
    delay_s: float = 0.0
    jitter_s: float = 0.0
    rate_bps: int | None = None
    """Rate of the switch's queue towards the host; None without a queue."""
    queue_bytes: int | None = None
    """Size of that queue."""
    loss: float = 0.0
    """Share of the frames to the host that its link loses at random."""
    capture_received: int | None = None
    capture_drops: int | None = None


class PortStats(_Read):
    """Counters of one switch port, as in the switch's `stats.json`."""

    port: int
    rx_packets: int = 0
    rx_overruns: int = 0
    tx_packets: int = 0
    tx_errors: int = 0
    queue_drops: int = 0
    link_lost: int = 0
    in_flight: int = 0


class SwitchStats(_Read):
    """The part of the switch's `stats.json` that the analysis needs."""

    ports: tuple[PortStats, ...] = ()
    dataplane: dict[str, int] = {}

    @property
    def unreported_losses(self) -> int:
        """Packets in no report: dropped by queues without deflection, or lost by links."""
        dropped = sum(port.queue_drops + port.link_lost for port in self.ports)
        return dropped - self.dataplane.get("deflected", 0)


class Switch(_Read):
    """The switch's counters over the whole run."""

    stats: SwitchStats | None = None
    reports_sent: int | None = None


class Manifest(_Read):
    """`manifest.json`."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str
    run_id: str
    weir_version: str = ""
    commit: str | None = None
    started_ns: int | None = None
    finished_ns: int | None = None
    complete: bool = False
    state: str = ""
    error: str | None = None
    target: str = "softswitch"
    seed: int | None = None
    detectors: tuple[str, ...] = RUN_DETECTORS
    phases: tuple[Phase, ...] = ()
    hosts: tuple[Host, ...] = ()
    switch: Switch = Switch()
    valid: bool = True
    invalid_reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Collector(_Read):
    """`collector.json`: the collector's counters."""

    schema_version: Literal[1] = Field(alias="schema")
    received: int
    malformed: int = 0
    duplicates: int = 0
    lost: int = 0
    kernel_drops: int = 0
    complete: bool = True


_Model = TypeVar("_Model", bound=BaseModel)


def _read(path: Path, model: type[_Model]) -> _Model:
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise RunFileError(
            f"{path}: not found; a run directory holds manifest.json, collector.json, "
            "telemetry.parquet and pcap/"
        ) from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise RunFileError(f"{path}: {where}: {first['msg']}") from error


def read_manifest(run_dir: Path) -> Manifest:
    """Read `manifest.json` of a run directory; raises RunFileError."""
    return _read(run_dir / "manifest.json", Manifest)


def read_collector(run_dir: Path) -> Collector:
    """Read `collector.json` of a run directory; raises RunFileError."""
    return _read(run_dir / "collector.json", Collector)
