# SPDX-License-Identifier: Apache-2.0
"""Checks of a policer: its keys among each other, and against the experiment."""

from __future__ import annotations

from collections.abc import Iterator

from weir.controlplane.config.model import ExperimentConfig, MatchConfig, PolicerConfig
from weir.controlplane.config.problems import Location, Problem, known
from weir.controlplane.config.values import FRAME_BYTES, POLICER_CELLS, PROTOCOLS
from weir.controlplane.units import LARGEST, Burst, format_rate


def check_burst(
    burst: Burst, rate_bps: int, location: Location, keys: tuple[str, str] = ("rate", "burst")
) -> Iterator[Problem]:
    """A problem if the bucket is smaller than a frame, which can never pass, or too large for P4Runtime.

    ``keys`` name rate and burst.
    """
    yield from _burst_fits(burst, rate_bps, location, keys)
    burst_bytes = burst.bytes_at(rate_bps)
    if burst_bytes < FRAME_BYTES:
        least_us = -(-FRAME_BYTES * 8 * 10**6 // rate_bps)
        yield Problem(
            (*location, keys[1]),
            f"a bucket of {burst_bytes} B at {format_rate(rate_bps)} never passes a full frame; "
            f"valid: at least {FRAME_BYTES} B, {least_us} us at this rate",
            depends_on=((*location, keys[0]),),
        )


def check_policer(
    policer: PolicerConfig, experiment: ExperimentConfig, location: Location
) -> Iterator[Problem]:
    """Every problem of one policer."""
    yield from check_meter(policer, location)
    yield from _mode(policer, location)
    yield from _reports(policer, experiment, location)
    for index, match in enumerate(policer.match):
        yield from check_match(match, experiment, (*location, "match", index))


def _burst_fits(burst: Burst, rate_bps: int, location: Location, keys: tuple[str, str]) -> Iterator[Problem]:
    burst_bytes = burst.bytes_at(rate_bps)
    if burst_bytes > LARGEST:
        yield Problem(
            (*location, keys[1]),
            f"a bucket of {burst_bytes} B at {format_rate(rate_bps)} is too large; "
            f"valid: at most {LARGEST} B",
            depends_on=((*location, keys[0]),),
        )


_BUCKETS = {"tr3c": ("peak_rate", "peak_burst"), "sr3c": ("excess_burst",), "sr2c": ()}
"""The keys that each meter type has in addition to rate and burst."""


def check_meter(policer: PolicerConfig, location: Location) -> Iterator[Problem]:
    """Every problem of its rates, bursts and colours."""
    yield from check_burst(policer.burst, policer.rate, location)
    if policer.excess_burst is not None:  # which may be empty
        yield from _burst_fits(policer.excess_burst, policer.rate, location, ("rate", "excess_burst"))
    kind: Location = (*location, "meter")
    for owner, keys in _BUCKETS.items():
        for key in keys:
            given = getattr(policer, key) is not None
            if given and owner != policer.meter:
                message = f"has no effect on a {policer.meter} meter; valid: leave it out, or meter: {owner}"
                yield Problem((*location, key), message, depends_on=(kind,))
            elif not given and owner == policer.meter:
                example = "'80 Mbit/s'" if key == "peak_rate" else "'20 ms'"
                message = f"missing for a {owner} meter; valid: such as {example}"
                yield Problem((*location, key), message, depends_on=(kind,))
    if policer.meter == "tr3c" and policer.peak_rate is not None:
        if policer.peak_rate < policer.rate:
            yield Problem(
                (*location, "peak_rate"),
                f"{format_rate(policer.peak_rate)} is less than the committed rate; "
                f"valid: at least {format_rate(policer.rate)}",
                depends_on=((*location, "rate"),),
            )
        if policer.peak_burst is not None:
            keys_of_peak = ("peak_rate", "peak_burst")
            yield from check_burst(policer.peak_burst, policer.peak_rate, location, keys_of_peak)
    if policer.meter == "sr2c" and "yellow" in policer.verdict.model_fields_set:
        message = "a sr2c meter has no yellow; valid: leave it out, or meter: sr3c or tr3c"
        yield Problem((*location, "verdict", "yellow"), message, depends_on=(kind,))
    if policer.meter == "sr2c" and policer.colour_aware:
        message = "a sr2c meter knows two colours of three; valid: leave it out, or meter: sr3c or tr3c"
        yield Problem((*location, "colour_aware"), message, depends_on=(kind,))


def _mode(policer: PolicerConfig, location: Location) -> Iterator[Problem]:
    mode: Location = (*location, "mode")
    if policer.mode == "per_flow_hashed" and policer.cells is None:
        yield Problem(
            (*location, "cells"),
            f"missing for mode per_flow_hashed; valid: a power of two up to {POLICER_CELLS // 2}, such as 64",
        )
    if policer.mode == "per_flow_learned" and policer.flows is None:
        message = "missing for mode per_flow_learned; valid: how many flows can have a bucket, such as 1000"
        yield Problem((*location, "flows"), message)
    if policer.mode == "shared" and policer.cells is not None:
        message = "has no effect in mode shared; valid: leave it out, or mode: per_flow_hashed"
        yield Problem((*location, "cells"), message, depends_on=(mode,))
    if policer.mode != "per_flow_learned":
        for key in {"flows", "idle"} & policer.model_fields_set:
            message = f"has no effect in mode {policer.mode}; valid: leave it out, or mode: per_flow_learned"
            yield Problem((*location, key), message, depends_on=(mode,))


def _reports(policer: PolicerConfig, experiment: ExperimentConfig, location: Location) -> Iterator[Problem]:
    reports, reports_location = policer.reports, (*location, "reports")
    if reports.collector is not None:
        collectors = list(experiment.telemetry.collectors)
        where: Location = ("telemetry", "collectors")
        yield from known(reports.collector, collectors, "collector", (*reports_location, "collector"), where)
    if reports.congested_at and reports.enqueues is None:
        message = "has no effect without enqueues; valid: give enqueues, or leave it out"
        depends_on = ((*reports_location, "enqueues"),)
        yield Problem((*reports_location, "congested_at"), message, depends_on=depends_on)


def check_match(match: MatchConfig, experiment: ExperimentConfig, location: Location) -> Iterator[Problem]:
    """Every problem of one entry of its match."""
    for key, names in (("from", match.source), ("to", match.destination)):
        for name in names or ():
            yield from known(name, list(experiment.hosts), "host", (*location, key), ("hosts",))
    if match.protocol is not None and match.protocol not in PROTOCOLS.values():
        for key, port in (("src_port", match.src_port), ("dst_port", match.dst_port)):
            if port is not None:
                yield Problem(
                    (*location, key),
                    f"protocol {match.protocol} has no ports; valid: with protocol tcp, udp or none",
                    depends_on=((*location, "protocol"),),
                )
