# SPDX-License-Identifier: Apache-2.0
"""`weir status`: shows tables, meters and counters of a running switch, once or live."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from weir.cli import options
from weir.controlplane.units import format_rate, format_size

if TYPE_CHECKING:
    from weir.cli.switch_job import Job
    from weir.controlplane.apply import SwitchControl
    from weir.controlplane.counters import PolicerCounters, PortCounters
    from weir.controlplane.entities import MeterCell
    from weir.controlplane.links_service import PortState

_COLOURS = ("green", "yellow", "red")


@dataclass(frozen=True)
class Reading:
    """Everything read from the switch at `time_s` (`time.monotonic`)."""

    time_s: float
    as_planned: bool
    tables: Mapping[str, int]
    meters: Mapping[int, MeterCell]
    policers: Mapping[str, PolicerCounters]
    learned: int
    drops: Mapping[int, int]
    reports_sent: int
    ports: Mapping[int, PortCounters]
    links: Mapping[int, PortState]
    """Links and queues by port; empty if the switch does not report them."""


def status(
    config: options.Experiment,
    switch: options.Switch = None,
    device_id: options.DeviceId = None,
    phase: options.PhaseName = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C.")] = False,
    interval_s: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between readings.")] = 1.0,
    compiled: options.Compiled = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    as_json: options.AsJson = False,
) -> int:
    """Show tables, meters and counters of a running switch; with --watch live, with rates."""
    from weir.cli.switch_job import job_of_options

    job = job_of_options(config, phase, switch, device_id, 1, (tls_ca, tls_cert, tls_key), compiled)
    return status_command(job, watch=watch, interval_s=interval_s, as_json=as_json, console=Console())


def status_command(job: Job, *, watch: bool, interval_s: float, as_json: bool, console: Console) -> int:
    """Show the state of the switch, with ``watch`` until Ctrl-C. Raises ControlPlaneError."""
    import asyncio

    async def show() -> None:
        async with aclosing(_readings(job, interval_s if watch else None)) as readings:
            if as_json:
                async for reading in readings:
                    print(json.dumps(_as_dict(job, reading)), flush=True)
                return
            if not watch:
                async for reading in readings:
                    console.print(_view(job, reading, None))
                return
            last: Reading | None = None
            with Live(console=console, auto_refresh=False, transient=False) as live:
                async for reading in readings:
                    live.update(_view(job, reading, last), refresh=True)
                    last = reading

    asyncio.run(show())
    return 0


async def _readings(job: Job, interval_s: float | None) -> AsyncGenerator[Reading]:
    import asyncio

    async with job.control("reader") as control:
        await control.runs_pipeline()
        while True:
            yield await _read(control, job)
            if interval_s is None:
                return
            await asyncio.sleep(interval_s)


async def _read(control: SwitchControl, job: Job) -> Reading:
    as_planned = len(await control.difference(job.phase)) == 0
    tables = await control.count_entries()
    meters = await control.read_meters(job.phase)
    learned = len(await control.learned_flows(job.phase))
    # The counters are read last, right after the timestamp, so that rates are exact: other reads take longer.
    return Reading(
        time.monotonic(),
        as_planned,
        tables,
        meters,
        await control.read_policers(job.phase),
        learned,
        await control.read_drops(),
        await control.read_reports_sent(job.plan.collectors),
        await control.read_ports(list(job.ports)),
        await control.read_links(),
    )


def _as_dict(job: Job, reading: Reading) -> dict[str, Any]:
    policers = []
    for policer in job.phase.policers:
        cell = reading.meters.get(policer.index)
        policers.append(
            {
                **policer.as_dict(),
                "read_back": None if cell is None else dict(cell.fields()),
                **reading.policers[policer.name].as_manifest(),
            }
        )
    return {
        "switch": job.endpoint.address,
        "phase": job.phase.name,
        "as_planned": reading.as_planned,
        "realtime_ns": time.time_ns(),
        "tables": dict(reading.tables),
        "policers": policers,
        "learned_flows": reading.learned,
        "drops": {str(reason): packets for reason, packets in reading.drops.items()},
        "reports_sent": reading.reports_sent,
        "ports": [_port_as_dict(job, reading, number) for number in job.ports],
    }


def _port_as_dict(job: Job, reading: Reading, number: int) -> dict[str, Any]:
    counters, state = reading.ports[number], reading.links.get(number)
    described = {
        "port": number,
        "names": list(job.ports[number]),
        "received": asdict(counters.received),
        "sent": asdict(counters.sent),
    }
    if state is None:
        return described
    return described | {
        "link": dict(state.link.fields()),
        "up": state.up,
        "waiting_packets": state.waiting_packets,
        "waiting_bytes": state.waiting_bytes,
        "queue_drops": state.queue_drops,
        "link_lost": state.link_lost,
        "in_flight": state.in_flight,
    }


def _view(job: Job, reading: Reading, last: Reading | None) -> Group:
    entries = ", ".join(f"{name} {count}" for name, count in reading.tables.items() if count)
    state = "as planned" if reading.as_planned else "NOT as planned: `weir plan` shows the difference"
    drops = ", ".join(f"{packets:,} for {reason}" for reason, packets in reading.drops.items())
    lines = (
        f"entries: {entries or 'none'}",
        f"dropped by ingress, by drop reason: {drops or 'none'}",
        f"learned flows: {reading.learned}; reports sent: {reading.reports_sent:,}",
        f"the switch is {state}",
    )
    return Group(_policers(job, reading, last), _ports(job, reading, last), *(Text(line) for line in lines))


def _policers(job: Job, reading: Reading, last: Reading | None) -> Table:
    heads = ("policer", "rate", "burst", "effective", *_COLOURS, "passed/s", "red/s", "queue")
    rows = []
    for policer in job.phase.policers:
        counters = reading.policers[policer.name]
        cell = reading.meters.get(policer.index)
        row = (
            policer.name,
            "unset" if cell is None else format_rate(cell.rate_bytes_per_s * 8),
            "unset" if cell is None else format_size(cell.burst_bytes),
            format_rate(round(policer.effective_rate_bps)),
            *(f"{asdict(counters)[colour]['packets']:,}" for colour in _COLOURS),
            *_rates(policer.name, reading, last),
            _queue(job.egress_ports(policer), reading),
        )
        rows.append(row)
    return table_of(f"phase {job.phase.name} on {job.endpoint.address}", heads, rows)


def _ports(job: Job, reading: Reading, last: Reading | None) -> Table:
    heads = ("port", "in", "out", "in/s", "out/s", "queue", "queue drops", "lost", "in flight")
    rows = []
    for number, names in job.ports.items():
        counters, state = reading.ports[number], reading.links.get(number)
        links = ("", "", "")
        if state is not None:
            links = (f"{state.queue_drops:,}", f"{state.link_lost:,}", f"{state.in_flight:,}")
        row = (
            port_name(number, names, state),
            f"{counters.received.packets:,}",
            f"{counters.sent.packets:,}",
            *_port_rates(number, reading, last),
            _queue((number,), reading),
            *links,
        )
        rows.append(row)
    return table_of("ports", heads, rows)


def port_name(number: int, names: Sequence[str], state: PortState | None) -> str:
    """A port with what is behind it; one whose interface is down or gone is marked."""
    down = "" if state is None or state.up else " (down)"
    return f"{number} {' '.join(names)}{down}"


def table_of(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of texts without the columns that are empty in every row, so that it fits a narrow terminal.

    Rates per second need an earlier reading (`--watch`), and some switches report no queues.
    """
    table = Table(title=title, title_justify="left")
    shown = [number for number in range(len(heads)) if number == 0 or any(row[number] for row in rows)]
    for number in shown:
        table.add_column(heads[number], justify="right" if number else "left")
    for row in rows:
        table.add_row(*(row[number] for number in shown))
    return table


def _queue(ports: Sequence[int], reading: Reading) -> str:
    """Total occupancy of the ports' queues; empty if the switch does not report them."""
    states = [reading.links[port] for port in ports if port in reading.links]
    if not states:
        return ""
    return format_size(sum(state.waiting_bytes for state in states))


def _port_rates(number: int, reading: Reading, last: Reading | None) -> tuple[str, str]:
    if last is None:
        return "", ""
    now, then, seconds = reading.ports[number], last.ports[number], reading.time_s - last.time_s
    return (
        _bit_rate(now.received.bytes, then.received.bytes, seconds),
        _bit_rate(now.sent.bytes, then.sent.bytes, seconds),
    )


def _bit_rate(now_bytes: int, then_bytes: int, seconds: float) -> str:
    if now_bytes < then_bytes:
        return "counts anew"
    return format_rate(round((now_bytes - then_bytes) * 8 / seconds))


def _rates(name: str, reading: Reading, last: Reading | None) -> tuple[str, str]:
    """Bit rate of green and yellow packets, and red packets per second, since the last reading."""
    if last is None:
        return "", ""
    now, then, seconds = reading.policers[name], last.policers[name], reading.time_s - last.time_s
    red = now.red.packets - then.red.packets
    passed, before = now.green.bytes + now.yellow.bytes, then.green.bytes + then.yellow.bytes
    if red < 0:
        return "counts anew", ""
    return _bit_rate(passed, before, seconds), f"{red / seconds:,.0f}"
