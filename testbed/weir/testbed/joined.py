# SPDX-License-Identifier: Apache-2.0
"""An experiment on a testbed: what the two files say of each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import ip_interface
from pathlib import Path

from weir.controlplane.attach import SUBNET, SWITCH_IP
from weir.controlplane.config import COLLECTOR, ExperimentConfig
from weir.controlplane.config.cables import TOFINO
from weir.controlplane.config.model import SwitchConfig
from weir.controlplane.config.values import BFRUNTIME
from weir.controlplane.targets import TARGETS, lacks, lacks_in_a_run
from weir.testbed.inventory import DEFAULT_PREFIX6, TestbedConfig


def on_testbed(experiment: ExperimentConfig, testbed: TestbedConfig) -> ExperimentConfig:
    """The experiment with the testbed's switch, if that has one, in place of its own."""
    if testbed.switch is None:
        return experiment
    switch = SwitchConfig(**testbed.switch.model_dump(exclude_unset=True))
    return experiment.model_copy(update={"switch": switch})


def problems(experiment: ExperimentConfig, testbed: TestbedConfig) -> Iterator[str]:
    """What keeps an experiment, as `on_testbed` returns it, from running there: a line each."""
    switch = experiment.switch
    bfruntime = switch.address is not None and switch.address.startswith(BFRUNTIME)
    if switch.address is None:
        yield "switch: missing; valid: address and target of the switch that the hosts are connected to"
    elif bfruntime and not switch.target.startswith(TOFINO):
        yield (
            f"switch.address: {switch.target} does not speak BfRuntime; "
            "valid: ADDRESS:PORT of its P4Runtime, or target: tofino"
        )
    if experiment.switch.target == "bmv2" and experiment.switch.thrift_port is None:
        yield (
            "switch.thrift_port: missing: bmv2 drops bursts of 64 packets without a trace unless its queues "
            "are set; valid: such as 9090, of a bmv2 on this machine"
        )
    without = [name for name in (*experiment.hosts, COLLECTOR) if name not in testbed.hosts]
    if without:
        yield (
            f"hosts: {', '.join(without)} missing; valid: the experiment's hosts by their names, and the "
            f"host {COLLECTOR}, which receives the reports"
        )
    if experiment.time == "virtual":
        yield "time: a testbed has its own clocks; valid: real (`weir run --time real`)"
    for name, host in experiment.hosts.items():
        entry = testbed.hosts.get(name)
        if entry is None:
            continue
        for key in ("address", "address6"):
            wanted, given = getattr(host, key), getattr(entry, key)
            if wanted and given and str(ip_interface(given).ip) != wanted:
                yield (
                    f"hosts.{name}.{key}: {given}, but the experiment says {wanted}; valid: one of the two"
                )
        if host.tuner is not None:
            yield f"hosts.{name}.tuner: tunes hosts of this machine only; valid: without it"
        if host.receive_queue is not None:
            yield f"hosts.{name}.receive_queue: a testbed's hosts keep their queues; valid: without it"
        for key, value in (("line_rate", host.line_rate), ("packet_cost", host.packet_cost)):
            if value:
                yield f"hosts.{name}: {key} of the experiment: a testbed has real lines; valid: without it"
    if not without:
        yield from _networks4(experiment, testbed)
    networks = {name: ip_interface(one).network for name, one in addresses6_of(experiment, testbed).items()}
    for name, network in networks.items():
        first = next(iter(networks))
        if network != networks[first]:
            yield (
                f"hosts.{name}.address6: in {network}, but that of {first} is in {networks[first]}; "
                "valid: one network for all hosts, whose prefix length address6 of the testbed may have"
            )
    for lack in (*lacks(experiment, TARGETS[switch.target].capabilities), *lacks_in_a_run(experiment)):
        yield f"switch.target {switch.target}: {lack.where}: {lack.message}"


def shared(testbeds: Sequence[tuple[Path, TestbedConfig]]) -> Iterator[str]:
    """Hosts and switches that two of the testbeds have, each given with its file: both cannot run at once."""
    owners: dict[str, Path] = {}
    for path, testbed in testbeds:
        ends = [testbed.ssh_of(name) for name in testbed.hosts]
        things = [f"the host at {one.host} port {one.port}" for one in ends]
        if testbed.switch is not None:
            things.append(f"the switch at {testbed.switch.address}")
        for thing in things:
            if thing in owners:
                yield f"--testbed: {owners[thing]} and {path} both have {thing}; valid: testbeds of their own"
        owners |= dict.fromkeys(things, path)


def _networks4(experiment: ExperimentConfig, testbed: TestbedConfig) -> Iterator[str]:
    """Hosts that would reach the first one by a router, if at all: the switch has no routes."""
    given = addresses_of(experiment, testbed)
    addresses = {
        name: ip_interface(testbed.hosts[name].address or f"{given[name]}/{SUBNET.prefixlen}")
        for name in experiment.hosts
    }
    (first, its), *others = addresses.items()
    for name, address in others:
        if address.ip not in its.network or its.ip not in address.network:
            yield (
                f"hosts.{name}.address: {address}, but that of {first} is {its}; "
                "valid: one network for all hosts of the experiment"
            )


def addresses6_of(experiment: ExperimentConfig, testbed: TestbedConfig) -> dict[str, str]:
    """The IPv6 addresses of hosts that have one in the experiment, with the testbed's prefix lengths."""
    return {
        name: testbed.hosts[name].address6 or f"{host.address6}/{DEFAULT_PREFIX6}"
        for name, host in experiment.hosts.items()
        if host.address6 is not None and name in testbed.hosts
    }


def addresses_of(experiment: ExperimentConfig, testbed: TestbedConfig) -> dict[str, str | None]:
    """The IPv4 address that a run gives to each host whose entry has none, the collector's last."""
    taken = {
        *(str(ip_interface(one.address).ip) for one in testbed.hosts.values() if one.address),
        *(host.address for host in experiment.hosts.values() if host.address),
        SWITCH_IP,
    }
    free = (str(address) for address in SUBNET.hosts() if str(address) not in taken)
    wanted = {name: host.address for name, host in experiment.hosts.items()} | {COLLECTOR: None}
    return {name: None if testbed.hosts[name].address else wanted[name] or next(free) for name in wanted}
