# SPDX-License-Identifier: Apache-2.0
"""Ansible's inventory in YAML to the keys of a testbed file, each with the place that it comes from.

Groups, children, hosts and their variables are read, with Ansible's precedence: groups nearer to the host
win, then `ansible_group_priority`, then the later name; the host's own variables win over all. The folders
host_vars and group_vars are not read; templates and ranges of hosts are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weir.controlplane.config import Location, Problem, nearest, one_of

_KEYS: Mapping[str, Location] = {
    "ansible_host": ("ssh", "host"),
    "ansible_port": ("ssh", "port"),
    "ansible_user": ("ssh", "user"),
    "ansible_ssh_private_key_file": ("ssh", "identity_file"),
    "weir_known_hosts": ("ssh", "known_hosts"),
    "weir_interface": ("interface",),
    "weir_address": ("address",),
    "weir_address6": ("address6",),
    "weir_mac": ("mac",),
    "weir_privileges": ("privileges",),
    "weir_switch_port": ("switch_port",),
    "weir_work_folder": ("work_folder",),
    "weir_disk_limit": ("disk_limit",),
}
"""Variable → key of a host."""
_VARIABLES = {key: variable for variable, key in _KEYS.items()}
_OURS = tuple(variable for variable in _KEYS if variable.startswith("weir_"))
_OLD = {
    "ansible_ssh_host": "ansible_host",
    "ansible_ssh_port": "ansible_port",
    "ansible_ssh_user": "ansible_user",
    "ansible_private_key_file": "ansible_ssh_private_key_file",
}
_ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_TRUE = (True, "true", "yes", "True")
_GROUP_KEYS = {"hosts", "children", "vars"}
_MANY = 64  # groups below each other; more is a loop


@dataclass(frozen=True)
class Converted:
    """An inventory as the data of a testbed file."""

    data: dict[str, Any]
    origins: Mapping[Location, Location]
    """Place in the inventory of each key of the data."""
    problems: tuple[Problem, ...]


@dataclass
class _Host:
    """A host: its variables with their places, from each group that it is in."""

    at: Location
    """Where it is first."""
    own: dict[str, tuple[Any, Location]] = field(default_factory=dict)
    groups: list[tuple[int, int, str, dict[str, tuple[Any, Location]]]] = field(default_factory=list)
    """Depth, priority, name and variables of each."""

    def variables(self) -> dict[str, tuple[Any, Location]]:
        merged: dict[str, tuple[Any, Location]] = {}
        for _, _, _, variables in sorted(self.groups, key=lambda group: group[:3]):
            merged |= variables
        return merged | self.own


def is_inventory(data: Mapping[str, Any]) -> bool:
    """Whether the data of a file is an inventory of Ansible: groups of hosts, and nothing else."""
    groups = [value for value in data.values() if isinstance(value, dict)]
    return (
        "hosts" not in data
        and any(value.keys() & _GROUP_KEYS for value in groups)
        and all(value is None or isinstance(value, dict) for value in data.values())
    )


def variable_of(key: Location) -> str:
    """The variable of a key of a host: `weir_interface` of ("interface",)."""
    return _VARIABLES.get(key, ".".join(map(str, key)))


def convert(data: Mapping[str, Any]) -> Converted:
    """The hosts that have variables of weir's, as a testbed file has them."""
    hosts: dict[str, _Host] = {}
    problems: list[Problem] = []
    for name, group in data.items():
        depth = 0 if name == "all" else 1
        problems += _gather(name, group, (name,), depth, {}, hosts)
    merged = {name: host.variables() for name, host in hosts.items()}
    chosen = {
        name: variables
        for name, variables in merged.items()
        if any(variable.startswith("weir_") for variable in variables)
    }
    if not chosen and not problems:
        message = f"no host has variables of weir's; valid: hosts with {', '.join(_OURS)}"
        problems.append(Problem((next(iter(data)),), message))
    found: dict[str, Any] = {}
    origins: dict[Location, Location] = {}
    for name, variables in chosen.items():
        origins[("hosts", name)] = hosts[name].at
        ssh: dict[str, Any] = {"host": name}
        entry: dict[str, Any] = {"ssh": ssh}
        found[name] = entry
        for variable, (value, place) in variables.items():
            problem = _problem_of(variable, value)
            if problem is not None:
                problems.append(Problem(place, problem))
            if variable == "ansible_become" and value in _TRUE and "weir_privileges" not in variables:
                entry["privileges"] = "sudo"
            if variable not in _KEYS:
                continue
            key = _KEYS[variable]
            (ssh if key[0] == "ssh" else entry)[str(key[-1])] = value
            origins[("hosts", name, *key)] = place
    return Converted({"hosts": found}, origins, tuple(problems))


def _gather(
    name: str,
    group: Any,
    at: Location,
    depth: int,
    inherited: Mapping[tuple[int, int, str], dict[str, tuple[Any, Location]]],
    hosts: dict[str, _Host],
) -> Iterator[Problem]:
    """Add the hosts of a group and of those below it; yields what is wrong with its form."""
    if group is None:
        return
    if depth > _MANY:
        yield Problem(at, f"groups are nested too deeply; valid: at most {_MANY} levels")
        return
    if not isinstance(group, dict):
        yield Problem(at, f"the group is not a mapping; {one_of(sorted(_GROUP_KEYS))}")
        return
    for key, value in group.items():
        if key not in _GROUP_KEYS:
            message = f"unknown key of a group{nearest(key, _GROUP_KEYS)}; {one_of(sorted(_GROUP_KEYS))}"
            yield Problem((*at, key), message)
        elif value is not None and not isinstance(value, dict):
            yield Problem((*at, key), "is not a mapping; valid: a mapping by name")
    variables = _variables(group.get("vars"), (*at, "vars"))
    priority = variables.get("ansible_group_priority", (1, at))[0]
    if isinstance(priority, bool) or not isinstance(priority, int):
        yield Problem(variables["ansible_group_priority"][1], "is not a whole number; valid: such as 10")
        priority = 1
    groups = {**inherited, (depth, priority, name): variables}
    for host, own in _items(group.get("hosts")):
        here = (*at, "hosts", host)
        if "[" in host:
            yield Problem(here, "ranges of hosts are not expanded; valid: each host by its name")
            continue
        if own is not None and not isinstance(own, dict):
            yield Problem(here, "the host's variables are not a mapping; valid: variables by name")
            continue
        known = hosts.setdefault(host, _Host(here))
        known.own |= _variables(own, here)
        known.groups += [(*key, values) for key, values in groups.items()]
    for child, below in _items(group.get("children")):
        yield from _gather(child, below, (*at, "children", child), depth + 1, groups, hosts)


def _items(node: Any) -> list[tuple[str, Any]]:
    return list(node.items()) if isinstance(node, dict) else []


def _variables(node: Any, at: Location) -> dict[str, tuple[Any, Location]]:
    return {variable: (value, (*at, variable)) for variable, value in _items(node)}


def _problem_of(variable: str, value: Any) -> str | None:
    """The mistake in a variable that would change how a host is reached, or that is not known."""
    if variable in _OLD:
        return f"an old name; valid: {_OLD[variable]}"
    if variable in _ARGUMENTS and value:
        return "arguments of ssh are not used; valid: leave it out for these hosts, and use known_hosts files"
    if variable == "ansible_connection" and value not in ("ssh", "smart"):
        return f"{value!r} is not over SSH; valid: ssh, smart"
    if variable.startswith("weir_") and variable not in _KEYS:
        return f"unknown variable{nearest(variable, _OURS)}; {one_of(_OURS)}"
    if variable in _KEYS and isinstance(value, str) and "{{" in value:
        return "templates are not evaluated; valid: a plain value"
    return None
