# SPDX-License-Identifier: Apache-2.0
"""A testbed file, or Ansible's inventory, to :class:`TestbedConfig`; or every problem with its line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from weir.controlplane.config import Location, Problem, Source, read_text, validate
from weir.testbed import ansible
from weir.testbed.inventory import NO_PASSWORDS, TESTBED, TestbedConfig

_PASSWORD = re.compile(r"(ansible_\w*|weir_\w*|ssh_|sudo_|become_|key_)?pass(word|wd|phrase)?", re.IGNORECASE)


def load_testbed(path: Path) -> TestbedConfig:
    """Read a testbed file, of weir's form or Ansible's.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or not a valid testbed; it lists all problems.
    """
    return parse_testbed(read_text(path, TESTBED), str(path))


def parse_testbed(text: str, filename: str = "testbed.yaml") -> TestbedConfig:
    """Read a testbed from YAML text; ``filename`` is for messages. Raises :class:`ConfigError`."""
    source = Source.parse(text, filename, TESTBED)
    data = source.data
    origins: Mapping[Location, Location] = {}
    passwords = list(_passwords(data, ()))
    if passwords:
        # Alone: what else is wrong can wait until the secret is out of the file.
        raise source.error(passwords)
    problems: list[Problem] = []
    if ansible.is_inventory(data):
        converted = ansible.convert(data)
        data, origins, problems = converted.data, converted.origins, list(converted.problems)
        if problems:
            raise source.error(problems)
    testbed, found = validate(TESTBED, data, check)
    if found or testbed is None:
        raise source.error([_at_origin(problem, origins) for problem in found])
    return testbed


def check(testbed: TestbedConfig) -> Iterator[Problem]:
    """Every problem of keys against each other: what two hosts cannot share."""
    places: dict[tuple[str, object], tuple[str, Location]] = {}
    for name, host in testbed.hosts.items():
        at: Location = ("hosts", name)
        ssh = testbed.ssh_of(name)
        if not ssh.user:
            yield Problem((*at, "ssh"), f"no user, and uid {os.getuid()} has no name here; valid: ssh.user")
        unique: list[tuple[str, object, Location]] = [
            ("ssh address", f"{ssh.host}:{ssh.port}", (*at, "ssh", "host")),
            ("switch port", host.switch_port, (*at, "switch_port")),
        ]
        for key in ("address", "address6"):
            value = getattr(host, key)
            if value is not None:
                unique.append(("address", str(ip_interface(value).ip), (*at, key)))
        if host.mac is not None:
            unique.append(("MAC address", host.mac, (*at, "mac")))
        for what, value, location in unique:
            other = places.setdefault((what, value), (name, location))
            if other[1] != location:
                message = f"host {other[0]!r} has the {what} {value} too; valid: one of its own"
                yield Problem(location, message, depends_on=(other[1],))
        if testbed.privileges_of(name) == "root" and ssh.user != "root":
            yield Problem(
                (*at, "privileges"),
                f"the user is {ssh.user!r}; valid: sudo, capabilities, or root with ssh.user root",
                depends_on=((*at, "ssh"),),
            )


def _passwords(node: Any, location: Location) -> Iterator[Problem]:
    """A problem for each key that is a password's, at any depth; its value is not in the message."""
    if isinstance(node, dict):
        for key, value in node.items():
            here = (*location, key)
            if _PASSWORD.fullmatch(key) and not isinstance(value, dict | list | bool):
                yield Problem(here, NO_PASSWORDS)
            else:
                yield from _passwords(value, here)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _passwords(value, (*location, index))


def _at_origin(problem: Problem, origins: Mapping[Location, Location]) -> Problem:
    """The problem at the place of Ansible's inventory that its key comes from."""
    location = problem.location
    for length in range(len(location), 0, -1):
        origin = origins.get(location[:length])
        if origin is not None:
            rest = location[length:]
            named = (ansible.variable_of(rest),) if rest else ()
            return replace(problem, location=(*origin, *named))
    return problem
