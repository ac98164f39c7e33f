# SPDX-License-Identifier: Apache-2.0
"""The lines between hosts and switch: their rate where the file gives none, and the checks of their keys."""

from __future__ import annotations

from collections.abc import Iterator

from weir.controlplane.config.model import ExperimentConfig
from weir.controlplane.config.problems import Location, Problem
from weir.controlplane.config.values import UNLIMITED
from weir.controlplane.units import format_rate, format_time

DEFAULT_LINE_RATE_BPS = 10 * 10**9
_MOST_COST_BYTES = 2**16 - 1 - 24
"""Linux counts a frame's cost as bytes at the line's rate, in 16 bits that Ethernet's overhead shares."""


def with_lines(experiment: ExperimentConfig, *, virtual: bool) -> ExperimentConfig:
    """The experiment with a line rate of each host, for a run in virtual or real time."""
    hosts = {}
    for name, host in experiment.hosts.items():
        default_bps = DEFAULT_LINE_RATE_BPS if virtual or host.packet_cost else UNLIMITED
        rate_bps = default_bps if host.line_rate is None else host.line_rate
        hosts[name] = host.model_copy(update={"line_rate": rate_bps})
    return experiment.model_copy(update={"hosts": hosts})


def check_line(experiment: ExperimentConfig, name: str) -> Iterator[Problem]:
    """Every problem of one host's line."""
    host = experiment.hosts[name]
    if not host.packet_cost:
        return
    location: Location = ("hosts", name, "packet_cost")
    depends_on: tuple[Location, ...] = (("hosts", name, "line_rate"),)
    if host.line_rate == UNLIMITED:
        message = "has no effect on an unlimited line; valid: a line_rate, or leave packet_cost out"
        yield Problem(location, message, depends_on=depends_on)
        return
    rate_bps = host.line_rate or DEFAULT_LINE_RATE_BPS
    # Down to whole microseconds, so that the text is short.
    most_ns = _MOST_COST_BYTES * 8 * 10**9 // rate_bps // 1000 * 1000
    if host.packet_cost > most_ns:
        message = (
            f"{format_time(host.packet_cost)} for each frame is too long at {format_rate(rate_bps)}; "
            f"valid: at most {format_time(most_ns)}, or a slower line"
        )
        yield Problem(location, message, depends_on=depends_on)
