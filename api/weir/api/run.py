# SPDX-License-Identifier: Apache-2.0
"""A run directory as an object: what the run was, its result, and its tables, each read on first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from weir.analysis.models import (
    CauseResult,
    ClockResult,
    FalseInferenceResult,
    FlowResult,
    HostClockResult,
    LinkResult,
    OtherFlow,
    PairResult,
    PhaseResult,
    PolicerResult,
    Result,
)
from weir.analysis.report import text
from weir.analysis.result_file import read_result
from weir.api import html
from weir.api.captures import Capture
from weir.api.table import ParquetTable, Table, flat, flat_types, from_models
from weir.rundir.directory import RunDirectory, is_held
from weir.rundir.errors import RunFileError
from weir.rundir.manifest import Manifest, read_manifest
from weir.rundir.plural import plural

_RAW = "the run writes it; a campaign with `keep: results` deletes it"
_ANALYSED = "the analysis writes it: Run.analyse(), or `weir report`"


def open_run(path: str | PathLike[str]) -> Run:
    """Open a run directory, such as `runs/demo/latest`; its tables are read when they are used.

    A run that did not finish opens too: `Run.complete` and `Run.problem` say so, and what it wrote is
    readable. Raises RunFileError if the directory is no run, or its manifest is malformed.
    """
    given = Path(path)
    if not RunDirectory(given).manifest.is_file():
        raise RunFileError(f"{given}: {_not_a_run(given)}")
    return Run(given)


def _not_a_run(path: Path) -> str:
    if not path.exists():
        return "not found; valid: a run directory, such as runs/demo/latest"
    if (path / "campaign.yaml").is_file():
        return f"a campaign; valid: weir.open_campaign({str(path)!r})"
    latest = path / "latest"
    valid = latest if latest.exists() else "a run directory, such as runs/demo/latest"
    return f"no manifest.json in it, so it is no run; valid: {valid}"


class Run:
    """One run. Tables are read on first use and kept; units are in the names of their columns.

    Their files are those of the directory, so a table of a file that the run did not write raises
    RunFileError.
    """

    def __init__(self, path: Path) -> None:
        """The run in `path`; raises RunFileError. Use `open_run`."""
        self.path = path.resolve()
        self.manifest: Manifest = read_manifest(path)
        """Configuration, versions, seeds, times and counters, as `manifest.json` records them."""
        self._files = RunDirectory(self.path)

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.manifest.name

    @property
    def run_id(self) -> str:
        """The name of its directory, which is its start in UTC; in virtual time `virtual-` and a digest."""
        return self.manifest.run_id

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return self.manifest.complete

    @property
    def problem(self) -> str | None:
        """Why there are no results, or only parts; None for a complete run with its analysis."""
        manifest = self.manifest
        if manifest.complete:
            if self._files.result.is_file():
                return self._damage
            if is_held(self.path):
                return "the run is being analysed"
            return "the run has not been analysed; Run.analyse() does that"
        if manifest.state == "running":
            return f"the run {'is not over yet' if is_held(self.path) else 'was killed before its end'}"
        if manifest.state == "failed":
            return f"the run failed: {manifest.error or 'no reason recorded'}"
        return manifest.error or "the run did not finish"

    @cached_property
    def _damage(self) -> str | None:
        try:
            _ = self.result
        except RunFileError as error:
            return str(error)
        return None

    @property
    def valid(self) -> bool:
        """Whether the measurement is sound: complete, and nothing in `result.invalid_reasons`."""
        return self.complete and self.result.valid

    @property
    def cell(self) -> Mapping[str, str]:
        """The labels of its cell in a campaign, by axis; empty for any other run."""
        campaign = self.manifest.campaign
        return MappingProxyType({} if campaign is None else campaign.cell)

    @property
    def report(self) -> Path:
        """The path of `report.html`."""
        return self._files.report

    @cached_property
    def result(self) -> Result:
        """`result.json`, typed: everything that the report shows. Raises RunFileError."""
        if not self._files.result.is_file():
            raise RunFileError(f"{self._files.result}: not found; {self._missing()}")
        return read_result(self.path)

    @property
    def unexplained(self) -> int:
        """Packets that no counter, report or capture explains; 0 for a sound run."""
        laws = [flow.unexplained for flow in self.result.flows]
        return sum(map(abs, laws + [other.law.unexplained for other in self.result.other_flows]))

    def analyse(self) -> Run:
        """Analyse the run (again): writes result.json, the tables of the analysis and report.html.

        Returns the run opened anew. Raises RunFileError and `weir_core.CaptureError`.
        """
        from weir.analysis.report import write_report
        from weir.analysis.result import analyse

        analyse(self.path)
        write_report(self.path)
        return Run(self.path)

    # The result: one row per …

    @cached_property
    def flows(self) -> Table:
        """One row per configured flow: packets sent, received, dropped, inferred lost; bit/s, seconds."""
        return Table("flows", lambda: self._flows("data"))

    @cached_property
    def other_flows(self) -> Table:
        """One row per directed flow that the experiment does not name: ACKs, control connections, others."""
        return Table("other_flows", lambda: self._flows("other"))

    @cached_property
    def phases(self) -> Table:
        """One row per phase, with its packets' conservation."""
        return self._of_result("phases", PhaseResult)

    @cached_property
    def policers(self) -> Table:
        """One row per policer of each phase: rate_bps, burst_bytes, packets by colour, conformance."""
        return self._of_result("policers", PolicerResult)

    @cached_property
    def pairs(self) -> Table:
        """One row per measured pair and detector: verdict and truth; `detail` is JSON."""
        return self._of_result("pairs", PairResult)

    @cached_property
    def links(self) -> Table:
        """One row per host's link: delay_s, rate_bps, queue_bytes, queue_packets, random loss (a share)."""
        return self._of_result("links", LinkResult)

    @cached_property
    def clocks(self) -> Table:
        """One row per sender: offset_ns and drift_ppm of its clock relative to the switch's."""
        return self._of_result("clocks", ClockResult)

    @cached_property
    def host_clocks(self) -> Table:
        """One row per host, and the switch: its clock beside the run's; `steps` is JSON."""
        return self._of_result("host_clocks", HostClockResult)

    @cached_property
    def causes(self) -> Table:
        """One row per flow and cause of retransmission: how right the inference was."""
        return Table("causes", lambda: self._within_flows("causes", CauseResult))

    @cached_property
    def false_inferences(self) -> Table:
        """One row per packet where inference and truth differ, at most 1,000 per flow."""
        return Table("false_inferences", lambda: self._within_flows("false_inferences", FalseInferenceResult))

    # Over time

    @cached_property
    def series(self) -> ParquetTable:
        """Loss, throughput, RTT and policers over time, as in the report's figures.

        Columns: phase, subject (flow or policer), kind, time_s (since the phase's start), value. Kinds:
        switch_loss_ratio, inferred_loss_ratio, sent_bps, received_bps, rtt_s, received_per_rtt_bps; of
        policers passed_bytes, allowed_bytes.
        """
        return ParquetTable("series", self._files.series, self._missing())

    @cached_property
    def sockets(self) -> ParquetTable:
        """The senders' TCP state, ten samples per second: rtt_ns, cwnd (packets), pacing_rate_bps, …"""
        return ParquetTable("sockets", self._files.sockets, _RAW)

    @cached_property
    def features(self) -> ParquetTable:
        """Five features of each sample of BBR flows' sockets, for a classifier of buffers; times in µs."""
        return ParquetTable("features", self._files.features, self._missing())

    @cached_property
    def tuning(self) -> ParquetTable:
        """One row per decision of a host's tuner.

        `time_ns` (this machine's clock) is when `sysctl` had its `value`; `predicted` is the class of the
        flow by so many `samples`; the classifier took `inference_ns`.
        """
        return ParquetTable("tuning", self._files.tuning, "only runs whose hosts have a tuner write it")

    # Packets

    @cached_property
    def telemetry(self) -> ParquetTable:
        """One row per report of the switch: a dropped packet, or an enqueued one (docs/collector.md).

        `ingress_ns` is on the switch's clock, `received_ns` on the collector's; `inner` is the packet's head.
        """
        return ParquetTable("telemetry", self._files.telemetry, _RAW)

    @cached_property
    def losses(self) -> Table:
        """The losses that senders infer, from each host's capture alone: one row per lost transmission.

        Columns are those of `Capture.losses`. One capture is read at a time; only its losses are kept. Raises
        RunFileError and `weir_core.CaptureError`.
        """
        return Table("losses", self._losses)

    @cached_property
    def packets(self) -> Table:
        """One row per IP packet sent: its arrival, the switch's drop, the sender's inference.

        Joins all captures with the reports, which takes seconds, and memory in proportion to the packets
        (about 500 bytes each). Columns: flow, kind (data, acks, control, other, outside), phase, sent_ns,
        received_ns, ingress_ns, wire_length and payload_length (bytes), seq, retransmission, dropped,
        policer, colour, packet_number, judged (the sender's capture shows whether it arrived), inferred_lost,
        inferred_at_ns, cause. Times are on the run's clock (`host_clocks`), but `ingress_ns` is on the
        switch's. Raises RunFileError and `weir_core.CaptureError`.
        """
        return Table("packets", lambda: self._joined[0])

    @cached_property
    def rtts(self) -> Table:
        """One row per RTT sample from the senders' captures: flow, phase, time_ns (of the ACK), rtt_ns.

        It is made with `packets`, and raises what that does.
        """
        return Table("rtts", lambda: self._joined[1])

    @cached_property
    def captures(self) -> Mapping[str, Capture]:
        """The hosts' captures, by host."""
        ids = {
            (flow.src, flow.dst, flow.src_port, flow.dst_port, flow.protocol): flow.id
            for phase in self.manifest.phases
            for flow in phase.flows
        }
        return MappingProxyType(
            {
                host.name: Capture(host.name, host.addresses, self.path / host.pcap, ids)
                for host in self.manifest.hosts
            }
        )

    @cached_property
    def _joined(self) -> tuple[pa.Table, pa.Table]:
        from weir.analysis.joined import packets_table, rtts_table
        from weir.analysis.reports import read_run

        data = read_run(self.path)
        return packets_table(data), rtts_table(data)

    def _missing(self) -> str:
        return self.problem or _ANALYSED

    def _losses(self) -> pa.Table:
        return pa.concat_tables([capture.losses.arrow() for capture in self.captures.values()])

    def _flows(self, wanted: str) -> pa.Table:
        table = ParquetTable("flows", self._files.flows, self._missing()).arrow()
        # The file has no type of a column that has only nulls, such as the precision where nothing was lost.
        types = flat_types(FlowResult) | flat_types(OtherFlow)
        for number, field in enumerate(table.schema):
            if pa.types.is_null(field.type) and field.name in types:
                column = table.column(number).cast(types[field.name])
                table = table.set_column(number, field.name, column)
        is_data = pc.equal(table["kind"], "data")
        if wanted == "data":
            return table.filter(is_data).drop_columns(["kind", "of"])
        names = ["kind", "of", "phase", "policer", "src", "dst", "src_port", "dst_port", "protocol"]
        law = ["sent", "received", "reported_drops", "reports_lost", "emulated_losses", "in_flight"]
        return table.filter(pc.invert(is_data)).select([*names, *law, "unexplained", "contradictions"])

    def _of_result(self, name: str, model: type[BaseModel]) -> Table:
        return Table(name, lambda: _rows(getattr(self.result, name), model))

    def _within_flows(self, name: str, model: type[BaseModel]) -> pa.Table:
        rows = [
            {"flow": flow.id, **flat(item.model_dump())}
            for flow in self.result.flows
            for item in getattr(flow, name)
        ]
        return from_models(rows, {"flow": pa.string()} | flat_types(model))

    def __repr__(self) -> str:
        """Name, state, and the number of flows and of unexplained packets."""
        head = f"{self.name}/{self.run_id}"
        if self.problem is not None:
            return f"<Run {head}: {self.problem}>"
        validity = "" if self.result.valid else "invalid; "
        return (
            f"<Run {head}: {validity}{plural(len(self.result.flows), 'flow')}, "
            f"{plural(self.unexplained, 'packet')} unexplained>"
        )

    def _repr_html_(self) -> str:
        head = html.heading(f"{self.name}, run {self.run_id}")
        if self.problem is not None:
            return head + html.lines([f"No results: {self.problem}"])
        result = self.result
        rows = [
            [
                flow.phase,
                flow.name,
                *map(text.count, (flow.sent, flow.received, flow.reported_drops, flow.inferred_lost)),
                *map(text.quality, (flow.precision, flow.recall)),
                text.rate(flow.throughput_bps),
                text.count(flow.unexplained),
            ]
            for flow in result.flows
        ]
        columns = (
            *("phase", "flow", "sent", "received", "dropped by switch", "inferred lost"),
            *("precision", "recall", "throughput", "unexplained"),
        )
        return head + html.lines([result.headline, *result.invalid_reasons]) + html.table("", columns, rows)


def _rows(items: Iterable[BaseModel], model: type[BaseModel]) -> pa.Table:
    return from_models([flat(item.model_dump()) for item in items], flat_types(model))
