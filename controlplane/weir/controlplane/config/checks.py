# SPDX-License-Identifier: Apache-2.0
"""Checks of the keys of an experiment against each other; each value is valid already."""

from __future__ import annotations

from collections.abc import Iterator

from weir.controlplane.config.cables import check_cables
from weir.controlplane.config.checks_change import check_changes
from weir.controlplane.config.checks_policer import check_policer
from weir.controlplane.config.lines import check_line
from weir.controlplane.config.model import BackgroundConfig, ExperimentConfig, FlowConfig
from weir.controlplane.config.problems import Location, Problem, known, one_of, unique
from weir.controlplane.config.queues import check_queue
from weir.controlplane.config.values import MAX_DATAGRAM6_BYTES, POLICER_CELLS
from weir.controlplane.units import format_time

RESERVED_HOSTS = ("switch", "collector")
"""Names of namespaces that the run itself creates."""

MAX_WRITES = 1_000_000
"""Largest number of writes of one flow: its two processes hold them in memory."""

_LONGEST_NS = 86_400 * 10**9
"""Longest test of iperf3, which refuses more as it starts."""

_SHORTEST_TUNING_NS = 200_000_000
"""Time between two decisions of a tuner that has at least one sample with features, which need two."""

_SMALLEST_INNER = 64
"""Bytes of Ethernet, IPv4 and TCP headers with the options that the analysis needs."""

_IPV6_MORE = 20
"""Bytes by which an IPv6 header exceeds an IPv4 header."""

_SMALLEST_CAPTURE6 = 114
"""Bytes of Ethernet, IPv6 and TCP headers with all options."""

_LEAST_SAMPLING_NS = 1_000_000
"""Shortest time between two samples of a socket."""

_LARGEST_INNER = 972
"""Bytes that fit a report: its 8-bit length is at most 254 words of 4 bytes, 44 bytes of them metadata."""


def check(experiment: ExperimentConfig) -> list[Problem]:
    """Every problem between keys, in no particular order; empty for a valid experiment."""
    return [
        *check_cables(experiment),
        *_hosts(experiment),
        *_flows(experiment),
        *_phases(experiment),
        *_telemetry(experiment),
    ]


def _hosts(experiment: ExperimentConfig) -> Iterator[Problem]:
    for name in experiment.hosts:
        location: Location = ("hosts", name)
        if name in RESERVED_HOSTS:
            yield Problem(location, f"{name!r} is reserved for the run itself; valid: any other name")
        yield from check_queue(experiment, name)
        yield from check_line(experiment, name)
        yield from _tuner(experiment, name)
        host = experiment.hosts[name]
        if host.reorder and not host.jitter:
            message = "has no effect without jitter; valid: give it a jitter, or leave it out"
            yield Problem((*location, "reorder"), message, depends_on=((*location, "jitter"),))
    for key in ("address", "address6", "mac", "port"):
        users: dict[object, str] = {}
        for name, host in experiment.hosts.items():
            value = getattr(host, key)
            if value is not None and value in users:
                yield Problem(
                    ("hosts", name, key),
                    f"{value} is also that of host {users[value]}; valid: a different one for each",
                    depends_on=(("hosts", users[value], key),),
                )
            users.setdefault(value, name)


def _tuner(experiment: ExperimentConfig, host: str) -> Iterator[Problem]:
    tuner = experiment.hosts[host].tuner
    if tuner is None:
        return
    its = [flow for flow in experiment.flows if flow.source == host and flow.protocol == "tcp"]
    location: Location = ("hosts", host, "tuner")
    yield from known(
        tuner.flow, [flow.name for flow in its], f"TCP flow from {host}", (*location, "flow"), ("flows",)
    )
    if tuner.every < _SHORTEST_TUNING_NS:
        least = format_time(_SHORTEST_TUNING_NS)
        message = f"{format_time(tuner.every)} has too few samples; valid: at least {least}"
        yield Problem((*location, "every"), message)
    if tuner.latency >= tuner.every:
        message = f"{format_time(tuner.latency)} is not less than the time between decisions; valid: less"
        yield Problem((*location, "latency"), message, depends_on=((*location, "every"),))
    for number, flow in enumerate(experiment.flows):
        if flow.name == tuner.flow and flow in its and not flow.congestion_control.startswith("bbr"):
            message = (
                f"{flow.congestion_control}, of whose state the tuner of {host} knows nothing; valid: bbr"
            )
            yield Problem(("flows", number, "congestion_control"), message, depends_on=((*location, "flow"),))


def _flows(experiment: ExperimentConfig) -> Iterator[Problem]:
    yield from unique([flow.name for flow in experiment.flows], ("flows",), "flow")
    yield from unique([flow.name for flow in experiment.background], ("background",), "background")
    for index, background in enumerate(experiment.background):
        if background.mean_size >= background.largest_size:
            yield Problem(
                ("background", index, "largest_size"),
                f"{background.largest_size} B is not more than the mean; "
                f"valid: more than {background.mean_size} B",
                depends_on=(("background", index, "mean_size"),),
            )
    ends: list[tuple[Location, FlowConfig | BackgroundConfig]] = [
        *((("flows", index), flow) for index, flow in enumerate(experiment.flows)),
        *((("background", index), background) for index, background in enumerate(experiment.background)),
    ]
    for location, flow in ends:
        for key, name in (("from", flow.source), ("to", flow.destination)):
            yield from known(name, list(experiment.hosts), "host", (*location, key), ("hosts",))
        yield from _ip_version(experiment, flow, location)
        if isinstance(flow, FlowConfig):
            yield from _udp(flow, location)
            yield from _application(flow, location)
        elif flow.protocol == "udp":
            yield from _udp_background(flow, location)
        if flow.source == flow.destination:
            others = [name for name in experiment.hosts if name != flow.source]
            yield Problem(
                (*location, "to"),
                f"{flow.destination!r} is also the flow's source; {one_of(others)}",
                depends_on=((*location, "from"), ("hosts",)),
            )


def _ip_version(
    experiment: ExperimentConfig, flow: FlowConfig | BackgroundConfig, location: Location
) -> Iterator[Problem]:
    ends = {name: experiment.hosts.get(name) for name in (flow.source, flow.destination)}
    without = [name for name, host in ends.items() if host is not None and host.address6 is None]
    if flow.ip_version == 6 and without:
        has = "has" if len(without) == 1 else "have"
        message = f"{' and '.join(without)} {has} no IPv6 address; valid: 4, or hosts with an address6"
        yield Problem((*location, "ip_version"), message, depends_on=(("hosts",),))


def _udp(flow: FlowConfig, location: Location) -> Iterator[Problem]:
    protocol: Location = (*location, "protocol")
    if flow.protocol == "tcp":
        if "datagram" in flow.model_fields_set:
            message = "has no effect on TCP; valid: leave it out, or protocol: udp"
            yield Problem((*location, "datagram"), message, depends_on=(protocol,))
        return
    if flow.ip_version == 6 and "datagram" in flow.model_fields_set and flow.datagram > MAX_DATAGRAM6_BYTES:
        message = (
            f"{flow.datagram} B do not fit an IPv6 packet of 1500 B; valid: at most {MAX_DATAGRAM6_BYTES} B"
        )
        yield Problem((*location, "datagram"), message, depends_on=((*location, "ip_version"),))
    if flow.rate is None and flow.replay is None:
        message = "missing for protocol udp; valid: such as '10 Mbit/s', or a replay"
        yield Problem((*location, "rate"), message)
    for key in ("datagram", "pacing"):
        if flow.replay is not None and key in flow.model_fields_set:
            message = "has no effect on a replay of UDP; valid: leave it out"
            yield Problem((*location, key), message, depends_on=((*location, "replay"),))
    if "congestion_control" in flow.model_fields_set:
        message = "has no effect on UDP; valid: leave it out, or protocol: tcp"
        yield Problem((*location, "congestion_control"), message, depends_on=(protocol,))
    if flow.measured:
        message = "detectors infer losses from TCP only; valid: false, or protocol: tcp"
        yield Problem((*location, "measured"), message, depends_on=(protocol,))


def _udp_background(background: BackgroundConfig, location: Location) -> Iterator[Problem]:
    if background.pacing is None:
        yield Problem((*location, "pacing"), "missing for protocol udp; valid: such as '2 Mbit/s'")
    if "congestion_control" in background.model_fields_set:
        message = "has no effect on UDP; valid: leave it out, or protocol: tcp"
        protocol: Location = (*location, "protocol")
        yield Problem((*location, "congestion_control"), message, depends_on=(protocol,))


def _application(flow: FlowConfig, location: Location) -> Iterator[Problem]:
    """Every problem of a flow's application: at most one of rate, writes and replay drives it."""
    given = [key for key in ("rate", "writes", "replay") if getattr(flow, key) is not None]
    if flow.protocol == "udp" and flow.writes is not None:
        message = "has no effect on UDP; valid: leave it out, or protocol: tcp"
        yield Problem((*location, "writes"), message, depends_on=((*location, "protocol"),))
    elif len(given) > 1:
        message = f"given in addition to {given[0]}; valid: one of rate, writes, replay"
        yield Problem((*location, given[1]), message, depends_on=((*location, given[0]),))
    if flow.replay is not None and not flow.replay.strip():
        yield Problem((*location, "replay"), "is empty; valid: a file of `weir trace`")
    if not {"writes", "replay"} & {*given} and flow.duration > _LONGEST_NS:
        message = (
            f"{format_time(flow.duration)} is more than iperf3 has; valid: at most {format_time(_LONGEST_NS)}"
        )
        depends_on = ((*location, "writes"), (*location, "replay"))
        yield Problem((*location, "duration"), message, depends_on=depends_on)
    if flow.writes is None:
        return
    writes_location: Location = (*location, "writes")
    if (flow.writes.on is None) != (flow.writes.off is None):
        missing = "off" if flow.writes.off is None else "on"
        yield Problem((*writes_location, missing), "missing; valid: both on and off, or neither")
    for key in ("every", "on", "off"):
        if getattr(flow.writes, key) == 0:
            yield Problem((*writes_location, key), "is 0; valid: more than 0 s, such as '20 ms'")
    if flow.writes.every and flow.duration // flow.writes.every > MAX_WRITES:
        least = format_time(-(-flow.duration // MAX_WRITES))
        message = f"more than {MAX_WRITES} writes in {format_time(flow.duration)}; valid: at least {least}"
        yield Problem((*writes_location, "every"), message, depends_on=((*location, "duration"),))


def _phases(experiment: ExperimentConfig) -> Iterator[Problem]:
    if experiment.phases is not None and experiment.policers is not None:
        message = "given in addition to phases; valid: policers in each phase, or no phases"
        yield Problem(("policers",), message)
    if experiment.phases is not None:
        yield from unique([phase.name for phase in experiment.phases], ("phases",), "phase")
    cells = 0
    for index, phase in enumerate(experiment.effective_phases()):
        location: Location = ("policers",) if experiment.phases is None else ("phases", index, "policers")
        yield from unique([policer.name for policer in phase.policers], location, "policer")
        for number, policer in enumerate(phase.policers):
            yield from check_policer(policer, experiment, (*location, number))
            fits, cells = cells < POLICER_CELLS, cells + policer.meter_cells
            if fits and cells >= POLICER_CELLS:
                key = "flows" if policer.flows else "cells" if policer.cells else "name"
                yield Problem(
                    (*location, number, key),
                    f"the policers up to this one need {cells} cells; "
                    f"valid: at most {POLICER_CELLS - 1} over all phases",
                )
        if experiment.phases is not None:
            yield from check_changes(phase, experiment, ("phases", index))
    yield from _one_meter(experiment)


def _one_meter(experiment: ExperimentConfig) -> Iterator[Problem]:
    """A problem if sr3c and tr3c are mixed: the type (RFC 2697 or RFC 2698) is that of the whole meter."""
    first: tuple[str, Location] | None = None
    for index, phase in enumerate(experiment.effective_phases()):
        base: Location = ("policers",) if experiment.phases is None else ("phases", index, "policers")
        for number, policer in enumerate(phase.policers):
            if policer.meter == "sr2c":
                continue
            location: Location = (*base, number, "meter")
            first = first or (policer.meter, location)
            if policer.meter != first[0]:
                yield Problem(
                    location,
                    f"{policer.meter} together with {first[0]}: all cells of the meter are of one type; "
                    f"valid: sr2c, {first[0]}, or another experiment",
                    depends_on=(first[1],),
                )


def _telemetry(experiment: ExperimentConfig) -> Iterator[Problem]:
    versions = {flow.ip_version for flow in experiment.flows}
    ipv6 = 6 in versions | {flow.ip_version for flow in experiment.background}
    smallest = _SMALLEST_INNER + (_IPV6_MORE if ipv6 else 0)
    if not smallest <= experiment.telemetry.truncate <= _LARGEST_INNER:
        yield Problem(
            ("telemetry", "truncate"),
            f"{experiment.telemetry.truncate} B is out of range; valid: {smallest} to {_LARGEST_INNER} B",
        )
    if experiment.capture.sockets < _LEAST_SAMPLING_NS:
        message = f"{format_time(experiment.capture.sockets)} is too short; valid: at least 1 ms"
        yield Problem(("capture", "sockets"), message)
    if ipv6 and experiment.capture.truncate < _SMALLEST_CAPTURE6:
        yield Problem(
            ("capture", "truncate"),
            f"{experiment.capture.truncate} B do not hold the headers of IPv6 and TCP with all options; "
            f"valid: at least {_SMALLEST_CAPTURE6} B",
        )
