# SPDX-License-Identifier: Apache-2.0
"""An experiment and a testbed, held against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weir.controlplane.config import parse_experiment
from weir.testbed.inventory import TestbedConfig
from weir.testbed.joined import addresses6_of, addresses_of, on_testbed, problems, shared

EXPERIMENT = """
name: one
hosts: {a: {delay: 5 ms}, b: {address: 10.0.0.9}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""
SIX = """
name: six
hosts: {a: {address6: "fd00::1"}, b: {address6: "fd00::2"}}
flows: [{name: f, from: a, to: b, ip_version: 6, duration: 1 s}]
"""
NO_DELAY = EXPERIMENT.replace("delay: 5 ms", "")
SWITCH = {"address": "192.0.2.1:9559"}


def rack(switch: dict[str, Any] | None = None, **changes: dict[str, Any] | None) -> TestbedConfig:
    """Hosts a, b and collector, with changes by name; None leaves a host out."""
    hosts = {
        name: {
            "ssh": {"host": f"192.0.2.{number}"},
            "interface": "eth1",
            "switch_port": number,
            **(changes.get(name) or {}),
        }
        for number, name in enumerate(("a", "b", "collector"), 11)
        if name not in changes or changes[name] is not None
    }
    return TestbedConfig.model_validate({"switch": SWITCH if switch is None else switch, "hosts": hosts})


def said(place: TestbedConfig, text: str = EXPERIMENT) -> list[str]:
    """The problems of the experiment there."""
    return list(problems(on_testbed(parse_experiment(text), place), place))


def test_the_switch_is_the_testbeds() -> None:
    switch = on_testbed(parse_experiment(EXPERIMENT), rack()).switch
    assert (switch.target, switch.address, switch.device_id) == ("softswitch", "192.0.2.1:9559", 1)
    assert said(rack()) == []


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        (rack(collector=None), EXPERIMENT, "hosts: collector missing"),
        (rack(b=None), EXPERIMENT, "hosts: b missing"),
        (
            rack(),
            NO_DELAY.replace("a: {}", "a: {receive_queue: {discipline: codel, rate: 1 Mbit/s}}"),
            "hosts.a.receive_queue: a testbed's hosts keep their queues; valid: without it",
        ),
        (
            rack(b={"address": "10.0.0.8/24"}),
            EXPERIMENT,
            "hosts.b.address: 10.0.0.8/24, but the experiment",
        ),
        (
            rack(b={"address6": "fd00::8/64"}),
            SIX,
            "hosts.b.address6: fd00::8/64, but the experiment says fd00::2; valid: one of the two",
        ),
        (
            rack(b={"address6": "fd00::2/120"}),
            SIX,
            "hosts.b.address6: in fd00::/120, but that of a is in fd00::/64; valid: one network",
        ),
        (
            rack(a={"address": "192.168.7.1/24"}),
            EXPERIMENT,
            "hosts.b.address: 10.0.0.9/24, but that of a is 192.168.7.1/24; valid: one network for all hosts",
        ),
        (rack(), f"time: virtual{EXPERIMENT}", "time: a testbed has its own clocks"),
        (rack(), EXPERIMENT.replace("delay: 5 ms", "line_rate: 1 Gbit/s"), "line_rate of the experiment"),
        (rack({**SWITCH, "target": "bmv2", "thrift_port": 9090}), EXPERIMENT, "hosts.a.delay"),
        (
            rack({**SWITCH, "target": "bmv2"}),
            NO_DELAY,
            "switch.thrift_port: missing",
        ),
        (
            rack({"address": "bfruntime://192.0.2.1"}),
            NO_DELAY,
            "switch.address: softswitch does not speak BfRuntime; valid: ADDRESS:PORT of its P4Runtime,",
        ),
        (rack({"address": "bfruntime://192.0.2.1", "target": "tofino"}), EXPERIMENT, "hosts.a.delay"),
        (
            rack({"address": "bfruntime://192.0.2.1", "target": "tofino"}),
            NO_DELAY.replace("a: {}", "a: {rate: 1 Mbit/s}"),
            "hosts.a.rate: a run sets no queues on a Tofino; valid: no rate",
        ),
    ],
)
def test_what_a_testbed_cannot_do_is_named(place: TestbedConfig, text: str, expected: str) -> None:
    (problem,) = said(place, text)
    assert expected in problem


def test_a_tofino_is_a_testbeds_switch_too() -> None:
    place = rack({"target": "tofino", "address": "bfruntime://192.0.2.1"})
    assert said(place, NO_DELAY) == []
    switch = on_testbed(parse_experiment(NO_DELAY), place).switch
    assert switch.address == "bfruntime://192.0.2.1:50052"
    assert "device_id" not in switch.model_fields_set, "not given: 0 over BfRuntime, 1 over P4Runtime"
    assert said(rack({**SWITCH, "target": "tofino2"}), NO_DELAY) == [], "under Stratum"
    without = rack().model_copy(update={"switch": None})
    assert said(without, f"switch: {{target: tofino, address: 'bfruntime://192.0.2.1'}}{NO_DELAY}") == []


def test_testbeds_that_share_a_host_or_a_switch_are_named() -> None:
    one, two = (Path("one.yaml"), rack()), (Path("two.yaml"), rack({"address": "192.0.2.2:9559"}))
    hosts = {name: {"ssh": {"host": f"198.51.100.{number}"}} for number, name in enumerate(("a", "b"), 1)}
    apart = rack({"address": "192.0.2.2:9559"}, **hosts, collector=None)
    assert list(shared([one, (Path("apart.yaml"), apart)])) == []
    assert next(shared([one, two])) == (
        "--testbed: one.yaml and two.yaml both have the host at 192.0.2.11 port 22; "
        "valid: testbeds of their own"
    )
    switch = (Path("three.yaml"), rack(**hosts, collector=None))
    assert list(shared([one, switch])) == [
        "--testbed: one.yaml and three.yaml both have the switch at 192.0.2.1:9559; "
        "valid: testbeds of their own"
    ]


def test_hosts_without_an_address_get_the_experiments_or_a_free_one() -> None:
    place = rack(collector={"address": "10.0.0.1/24"})
    addresses = addresses_of(parse_experiment(EXPERIMENT), place)
    assert addresses == {"a": "10.0.0.2", "b": "10.0.0.9", "collector": None}


def test_ipv6_addresses_are_the_experiments_with_the_testbeds_prefix_lengths() -> None:
    place = rack(b={"address6": "fd00::2/64"})
    assert said(place, SIX) == []
    assert addresses6_of(parse_experiment(SIX), place) == {"a": "fd00::1/64", "b": "fd00::2/64"}
    assert addresses6_of(parse_experiment(EXPERIMENT), place) == {}
