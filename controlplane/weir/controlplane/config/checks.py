# SPDX-License-Identifier: Apache-2.0
"""What must hold between the keys of an experiment, beyond each value on its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weir.controlplane.config.model import (
    FRAME_BYTES,
    POLICER_CELLS,
    PROTOCOLS,
    ExperimentConfig,
    HostConfig,
    MatchConfig,
    PolicerConfig,
)
from weir.controlplane.config.problems import Location, Problem, nearest, one_of
from weir.controlplane.units import format_rate

RESERVED_HOSTS = ("switch", "collector")
"""Names that the run gives to namespaces of its own."""

_SMALLEST_INNER = 64
"""Ethernet, IPv4 and TCP headers with the options that matter."""

_LARGEST_INNER = 972
"""What the report's 8-bit length, in words, can say beside 44 bytes of metadata (255 has another meaning)."""


def check(experiment: ExperimentConfig) -> list[Problem]:
    """Every problem between keys, in no particular order; an empty list for a valid experiment."""
    return [
        *_hosts(experiment),
        *_flows(experiment),
        *_phases(experiment),
        *_telemetry(experiment),
    ]


def _hosts(experiment: ExperimentConfig) -> Iterator[Problem]:
    for name, host in experiment.hosts.items():
        location: Location = ("hosts", name)
        if name in RESERVED_HOSTS:
            yield Problem(location, f"{name!r} is taken by the run itself; valid: any other name")
        yield from _host_queue(host, location)


def _host_queue(host: HostConfig, location: Location) -> Iterator[Problem]:
    if host.rate is None:
        for key, value in (("burst", host.burst), ("queue", host.queue)):
            if value is not None:
                yield Problem(
                    (*location, key),
                    f"has no effect without a rate; valid: give {location[-1]} a rate, or leave {key} out",
                    depends_on=((*location, "rate"),),
                )
        return
    if host.burst is not None:
        yield from _burst_holds_a_frame(host.burst.bytes_at(host.rate), host.rate, location)
    if host.queue is not None and host.queue < FRAME_BYTES:
        yield Problem(
            (*location, "queue"),
            f"{host.queue} B hold not one frame; valid: at least {FRAME_BYTES} B (one frame)",
        )


def _burst_holds_a_frame(burst_bytes: int, rate_bps: int, location: Location) -> Iterator[Problem]:
    if burst_bytes < FRAME_BYTES:
        least_us = -(-FRAME_BYTES * 8 * 10**6 // rate_bps)
        yield Problem(
            (*location, "burst"),
            f"{burst_bytes} B at {format_rate(rate_bps)} never pass a full frame; "
            f"valid: at least {FRAME_BYTES} B, {least_us} us at this rate",
            depends_on=((*location, "rate"),),
        )


def _known_host(name: str, experiment: ExperimentConfig, location: Location) -> Iterator[Problem]:
    if name not in experiment.hosts:
        hosts = list(experiment.hosts)
        yield Problem(
            location, f"no host {name!r}{nearest(name, hosts)}; {one_of(hosts)}", depends_on=(("hosts",),)
        )


def _unique(names: Sequence[str], location: Location, what: str) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            yield Problem(
                (*location, index, "name"),
                f"second {what} named {name!r} (the first is {location[-1]}[{first[name]}]); "
                "valid: a name of its own",
                depends_on=((*location, first[name], "name"),),
            )
        first.setdefault(name, index)


def _flows(experiment: ExperimentConfig) -> Iterator[Problem]:
    yield from _unique([flow.name for flow in experiment.flows], ("flows",), "flow")
    for index, flow in enumerate(experiment.flows):
        location: Location = ("flows", index)
        yield from _known_host(flow.source, experiment, (*location, "from"))
        yield from _known_host(flow.destination, experiment, (*location, "to"))
        if flow.source == flow.destination:
            others = [name for name in experiment.hosts if name != flow.source]
            yield Problem(
                (*location, "to"),
                f"{flow.destination!r} is where the flow comes from; {one_of(others)}",
                depends_on=((*location, "from"), ("hosts",)),
            )


def _phases(experiment: ExperimentConfig) -> Iterator[Problem]:
    if experiment.phases is not None and experiment.policers is not None:
        yield Problem(("policers",), "given beside phases; valid: policers in each phase, or no phases")
    if experiment.phases is not None:
        yield from _unique([phase.name for phase in experiment.phases], ("phases",), "phase")
    cells = 0
    for index, phase in enumerate(experiment.effective_phases()):
        location: Location = ("policers",) if experiment.phases is None else ("phases", index, "policers")
        yield from _unique([policer.name for policer in phase.policers], location, "policer")
        for number, policer in enumerate(phase.policers):
            yield from _policer(policer, experiment, (*location, number))
            fits, cells = cells < POLICER_CELLS, cells + (policer.cells or 1)
            if fits and cells >= POLICER_CELLS:
                yield Problem(
                    (*location, number, "cells" if policer.cells else "name"),
                    f"the policers up to this one need {cells} cells; "
                    f"valid: at most {POLICER_CELLS - 1} over all phases",
                )


def _policer(policer: PolicerConfig, experiment: ExperimentConfig, location: Location) -> Iterator[Problem]:
    yield from _burst_holds_a_frame(policer.burst.bytes_at(policer.rate), policer.rate, location)
    if policer.mode == "per_flow_hashed" and policer.cells is None:
        yield Problem(
            (*location, "cells"),
            f"missing for mode per_flow_hashed; valid: a power of two up to {POLICER_CELLS // 2}, such as 64",
        )
    if policer.mode == "shared" and policer.cells is not None:
        yield Problem(
            (*location, "cells"),
            "has no effect in mode shared; valid: leave it out, or mode: per_flow_hashed",
            depends_on=((*location, "mode"),),
        )
    for index, match in enumerate(policer.match):
        yield from _match(match, experiment, (*location, "match", index))


def _match(match: MatchConfig, experiment: ExperimentConfig, location: Location) -> Iterator[Problem]:
    for key, names in (("from", match.source), ("to", match.destination)):
        for name in names or ():
            yield from _known_host(name, experiment, (*location, key))
    if match.protocol is not None and match.protocol not in PROTOCOLS.values():
        for key, port in (("src_port", match.src_port), ("dst_port", match.dst_port)):
            if port is not None:
                yield Problem(
                    (*location, key),
                    f"protocol {match.protocol} has no ports; valid: with protocol tcp, udp or none",
                    depends_on=((*location, "protocol"),),
                )


def _telemetry(experiment: ExperimentConfig) -> Iterator[Problem]:
    if not _SMALLEST_INNER <= experiment.telemetry.truncate <= _LARGEST_INNER:
        yield Problem(
            ("telemetry", "truncate"),
            f"{experiment.telemetry.truncate} B is out of range; "
            f"valid: {_SMALLEST_INNER} to {_LARGEST_INNER} B",
        )
