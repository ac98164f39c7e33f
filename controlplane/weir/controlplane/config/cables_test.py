# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.controlplane.attach import attachment_of
from weir.controlplane.config import ConfigError, parse_experiment

THERE = """\
name: there
switch:
  target: bmv2
  address: switch.example:9559
  device_id: 7
  ports:
    a: {port: 132, interface: enp3s0}
    b: {port: 133, interface: enp4s0}
    collector: {port: 140, interface: enp5s0}
hosts:
  a: {}
  b: {}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""


def test_hosts_and_collector_are_behind_the_ports_of_the_file() -> None:
    experiment = parse_experiment(THERE)
    assert (experiment.switch.address, experiment.switch.device_id) == ("switch.example:9559", 7)
    attachment = attachment_of(experiment)
    assert {name: host.port for name, host in attachment.hosts.items()} == {"a": 132, "b": 133}
    assert attachment.collectors["collector"].port == 140


@pytest.mark.parametrize("address", ["192.0.2.1:9559", "[2001:db8::1]:9559", "switch-1.example.org:1"])
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    text = THERE.replace("switch.example:9559", f"'{address}'")
    assert parse_experiment(text).switch.address == address


@pytest.mark.parametrize(
    ("address", "read"),
    [
        ("192.0.2.1", "192.0.2.1:50052"),
        ("192.0.2.1:50053", "192.0.2.1:50053"),
        ("[2001:db8::1]", "[2001:db8::1]:50052"),
        ("[2001:db8::1]:1", "[2001:db8::1]:1"),
        ("switch.example", "switch.example:50052"),
    ],
)
def test_a_bf_switchd_has_a_port_of_its_own(address: str, read: str) -> None:
    text = THERE.replace("bmv2", "tofino").replace("switch.example:9559", f"'bfruntime://{address}'")
    assert parse_experiment(text).switch.address == f"bfruntime://{read}"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "switch.example:9559",
            "bfruntime://switch.example",
            "there.yaml:4: switch.address: bmv2 does not speak BfRuntime; valid: ADDRESS:PORT, "
            "or target: tofino",
        ),
        (
            "switch.example:9559",
            "'bfruntime://:1'",
            "there.yaml:4: switch.address: 'bfruntime://:1' is not the address of a bf_switchd; "
            "valid: such as bfruntime://192.0.2.1",
        ),
        (
            "target: bmv2",
            "target: tofino\n  port_settings: {nobody: {speed: 10 Gbit/s}}",
            "there.yaml:4: switch.port_settings.nobody: no host 'nobody'; valid: a, b, collector",
        ),
        (
            "device_id: 7",
            "port_settings: {a: {speed: 10 Gbit/s}}",
            "there.yaml:5: switch.port_settings: bmv2 has no such settings; valid: leave it out, "
            "or target: tofino",
        ),
        (
            "  address: switch.example:9559\n  device_id: 7\n",
            "",
            "there.yaml:4: switch.ports: has no effect without an address; valid: an address, or leave it "
            "out",
        ),
        (
            "switch.example:9559",
            "switch.example",
            "there.yaml:4: switch.address: 'switch.example' is not an address with a port; "
            "valid: such as 192.0.2.1:9559",
        ),
        (
            "switch.example:9559",
            "switch.example:99999",
            "there.yaml:4: switch.address: 'switch.example:99999' is not an address with a port; "
            "valid: such as 192.0.2.1:9559",
        ),
        (
            "    b: {port: 133",
            "    c: {port: 133",
            "there.yaml:8: switch.ports.c: no host 'c'; valid: a, b, collector",
        ),
        (
            "port: 133",
            "port: 132",
            "there.yaml:8: switch.ports.b.port: 132 is also that of a; valid: a different one for each",
        ),
        (
            "enp4s0",
            "enp3s0",
            "there.yaml:8: switch.ports.b.interface: enp3s0 is also that of a; "
            "valid: a different one for each",
        ),
        (
            "enp4s0",
            "a/b",
            "there.yaml:8: switch.ports.b.interface: 'a/b' is not an interface of Linux; "
            "valid: such as enp3s0",
        ),
        (
            "  b: {}",
            "  b: {port: 9}",
            "there.yaml:8: switch.ports.b.port: 133 is not hosts.b.port, which is 9; valid: one of them",
        ),
        (
            "port: 133, interface: enp4s0",
            "port: 133",
            "there.yaml:8: switch.ports.b.interface: missing; valid: such as 'enp3s0'",
        ),
    ],
)
def test_mistakes_are_named_with_their_line(old: str, new: str, line: str) -> None:
    assert old in THERE
    with pytest.raises(ConfigError) as error:
        parse_experiment(THERE.replace(old, new), "there.yaml")
    assert error.value.lines == (line,)
