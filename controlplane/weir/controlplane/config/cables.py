# SPDX-License-Identifier: Apache-2.0
"""Checks of the keys of a switch that runs already: its address, and where its ports are plugged in."""

from __future__ import annotations

from collections.abc import Iterator

from weir.controlplane.config.model import ExperimentConfig
from weir.controlplane.config.problems import Location, Problem, known
from weir.controlplane.config.values import BFRUNTIME

COLLECTOR = "collector"
"""The name in `switch.ports` of the host that a run starts to receive reports."""
TOFINO = "tofino"
"""Begins the names of targets with ports that are set."""


def check_cables(experiment: ExperimentConfig) -> Iterator[Problem]:
    """Every problem of `switch.address` and of the keys that go with it."""
    switch = experiment.switch
    yield from _check_tofino(experiment)
    if switch.address is None:
        for key in ("device_id", "thrift_port", "ports"):
            if key in switch.model_fields_set:
                message = "has no effect without an address; valid: an address, or leave it out"
                yield Problem(("switch", key), message, depends_on=(("switch", "address"),))
        return
    if switch.address.startswith(BFRUNTIME) and not switch.target.startswith(TOFINO):
        message = f"{switch.target} does not speak BfRuntime; valid: ADDRESS:PORT, or target: tofino"
        yield Problem(("switch", "address"), message, depends_on=(("switch", "target"),))
    if switch.thrift_port is not None and switch.target != "bmv2":
        message = f"{switch.target} has no Thrift; valid: leave it out, or target: bmv2"
        yield Problem(("switch", "thrift_port"), message, depends_on=(("switch", "target"),))
    for name, cable in switch.ports.items():
        location: Location = ("switch", "ports", name)
        yield from known(name, [*experiment.hosts, COLLECTOR], "host", location, ("hosts",))
        host = experiment.hosts.get(name)
        if host is not None and host.port is not None and host.port != cable.port:
            yield Problem(
                (*location, "port"),
                f"{cable.port} is not hosts.{name}.port, which is {host.port}; valid: one of them",
                depends_on=(("hosts", name, "port"),),
            )
    for key in ("port", "interface"):
        users: dict[object, str] = {}
        for name, cable in switch.ports.items():
            value = getattr(cable, key)
            if value in users:
                yield Problem(
                    ("switch", "ports", name, key),
                    f"{value} is also that of {users[value]}; valid: a different one for each",
                    depends_on=(("switch", "ports", users[value], key),),
                )
            users.setdefault(value, name)


def _check_tofino(experiment: ExperimentConfig) -> Iterator[Problem]:
    switch = experiment.switch
    if switch.port_settings and not switch.target.startswith(TOFINO):
        message = f"{switch.target} has no such settings; valid: leave it out, or target: tofino"
        yield Problem(("switch", "port_settings"), message, depends_on=(("switch", "target"),))
    names = [*experiment.hosts, *(experiment.telemetry.collectors or [COLLECTOR])]
    for name in switch.port_settings:
        yield from known(name, names, "host", ("switch", "port_settings", name), ("hosts",))
