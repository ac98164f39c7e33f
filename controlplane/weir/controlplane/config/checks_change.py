# SPDX-License-Identifier: Apache-2.0
"""Checks of what changes during a phase: policers, and links to hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weir.controlplane.config.checks_policer import check_burst, check_match, check_meter
from weir.controlplane.config.model import ChangeConfig, ExperimentConfig, HostConfig, PhaseConfig
from weir.controlplane.config.problems import Location, Problem, known
from weir.controlplane.units import format_time

_POLICER_KEYS = ("rate", "burst", "peak_rate", "peak_burst", "excess_burst", "match")
_LINK_KEYS = ("rate", "burst", "delay", "jitter", "loss")


def check_changes(phase: PhaseConfig, experiment: ExperimentConfig, location: Location) -> Iterator[Problem]:
    """Every problem of the changes within a phase."""
    policers = {policer.name: policer for policer in phase.policers}
    hosts = dict(experiment.hosts)
    end_ns = max(flow.start + flow.duration for flow in experiment.flows)
    last_ns = 0
    for index, change in enumerate(phase.changes):
        change_location: Location = (*location, "changes", index)
        if not last_ns <= change.at < end_ns:
            valid = f"valid: {format_time(last_ns)} to less than {format_time(end_ns)}, the last flow's end"
            message = f"{format_time(change.at)} is out of order or too late; {valid}"
            yield Problem((*change_location, "at"), message)
        if change.at < end_ns:
            last_ns = max(last_ns, change.at)
        if (change.policer is None) == (change.host is None):
            message = "changes a policer or the link to a host; valid: one of policer, host"
            yield Problem(change_location, message)
        elif change.host is not None:
            yield from _link_change(change, hosts, change_location)
        elif change.policer is not None and change.policer not in policers:
            where: Location = (*location, "policers")
            yield from known(change.policer, list(policers), "policer", (*change_location, "policer"), where)
        elif change.policer is not None:
            before = policers[change.policer]
            after = policers[change.policer] = change.applied_to(before)
            yield from _changed(change, change.policer, _POLICER_KEYS, change_location, same=after == before)
            yield from check_meter(after, change_location)
            for number, match in enumerate(change.match or ()):
                yield from check_match(match, experiment, (*change_location, "match", number))


def _link_change(change: ChangeConfig, hosts: dict[str, HostConfig], location: Location) -> Iterator[Problem]:
    name = change.host or ""
    if name not in hosts:
        yield from known(name, list(hosts), "host", (*location, "host"), ("hosts",))
        return
    before = hosts[name]
    after = hosts[name] = change.applied_to(before)
    yield from _changed(change, name, _LINK_KEYS, location, same=after == before)
    for key in ("rate", "burst"):
        if key in change.settings and before.rate is None:
            message = f"{name} has no rate at the start; valid: give hosts.{name} a rate"
            yield Problem((*location, key), message, depends_on=(("hosts", name, "rate"),))
    if after.rate is not None and after.burst is not None:
        yield from check_burst(after.burst, after.rate, location)


def _changed(
    change: ChangeConfig, name: str, keys: Sequence[str], location: Location, *, same: bool
) -> Iterator[Problem]:
    """A problem if a change changes nothing, or something that its object does not have."""
    of = "a policer" if change.host is None else "a link"
    for key in change.settings:
        if key not in keys:
            yield Problem((*location, key), f"is not of {of}; valid: {', '.join(keys)}")
    if same:
        yield Problem(location, f"changes nothing of {name}; valid: a new value of {', '.join(keys)}")
