# SPDX-License-Identifier: Apache-2.0
"""The changes that the helper makes on a host, and how each is undone.

Runs on the host with Python 3.9 and its standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from ipaddress import ip_interface
from pathlib import Path
from typing import Any, Callable, NamedTuple

PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
PATIENCE_S = 10.0
GRACE_S = 3.0
# ethtool's short names of what has no name of the kernel's in `ethtool -k`.
SHORT = {
    "rx-checksumming": "rx",
    "tx-checksumming": "tx",
    "scatter-gather": "sg",
    "tcp-segmentation-offload": "tso",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
    "large-receive-offload": "lro",
    "rx-vlan-offload": "rxvlan",
    "tx-vlan-offload": "txvlan",
    "ntuple-filters": "ntuple",
    "receive-hashing": "rxhash",
}
FEATURE = re.compile(r"(\t?)([^:\s]+): (on|off)( \[fixed\])?(?: \[requested (on|off)\])?")

# `ip route show` has them; `ip route add` does not take them.
ROUTE_FLAGS = ("linkdown", "dead")

Record = dict[str, Any]
"""A change: its kind, what was there, what is wanted."""


class Refused(Exception):
    """A request that cannot be met; nothing is changed."""


def tool(*argv: str) -> str:
    """The output of a program. Raises Refused with its complaint."""
    path = shutil.which(argv[0], path=PATH)
    if path is None:
        raise Refused(f"{argv[0]} is not installed")
    environment = {**os.environ, "LC_ALL": "C", "PATH": PATH}
    try:
        done = subprocess.run(
            [path, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"`{' '.join(argv)}`: {error}") from error
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise Refused(f"`{' '.join(argv)}`: {(text.strip() or 'failed').splitlines()[-1]}")
    return text


# `plan` says what would be recorded (None: nothing to do), `make` makes it, `undo` puts back what was.


def sysctl_path(name: str) -> Path:
    """The file of a setting of the network namespace; between slashes, a name may have dots."""
    parts = name.split("/" if "/" in name else ".")
    if len(parts) < 2 or parts[0] != "net" or any(re.fullmatch(r"[\w.@-]+", one) is None for one in parts):
        raise Refused(f"{name} is not a setting of a network namespace; valid: such as net.ipv4.tcp_ecn")
    if any(one in (".", "..") for one in parts):
        raise Refused(f"{name} is not a setting of a network namespace; valid: such as net.ipv4.tcp_ecn")
    return Path("/proc/sys", *parts)


def sysctl_now(name: str) -> str:
    """The value of a setting, with single spaces."""
    try:
        return " ".join(sysctl_path(name).read_text().split())
    except FileNotFoundError as error:
        raise Refused(f"this kernel has no setting {name} of a network namespace") from error
    except OSError as error:
        raise Refused(f"{name}: {error.strerror}") from error


def sysctl_write(name: str, value: str) -> None:
    """Set a setting."""
    try:
        sysctl_path(name).write_text(value)
    except OSError as error:
        raise Refused(f"the kernel refuses {name} = {value}: {error.strerror}") from error


def plan_sysctl(request: Record) -> Record | None:
    """A setting and its value."""
    name, value = request["name"], " ".join(str(request["value"]).split())
    old = sysctl_now(name)
    return None if old == value else {"name": name, "old": old, "new": value}


def make_sysctl(record: Record) -> None:
    """Set it; a value that the kernel changes is refused."""
    sysctl_write(record["name"], record["new"])
    now = sysctl_now(record["name"])
    if now != record["new"]:
        sysctl_write(record["name"], record["old"])
        raise Refused(f"the kernel makes {now} of {record['name']} = {record['new']}")


def undo_sysctl(record: Record) -> str | None:
    """Set the old value, unless somebody else has set another one meanwhile."""
    now = sysctl_now(record["name"])
    if now == record["new"]:
        sysctl_write(record["name"], record["old"])
    elif now != record["old"]:
        return f"{record['name']} is {now}, which weir did not set; it was {record['old']} before"
    return None


class Feature(NamedTuple):
    """A feature of an interface: `wanted` is what was asked for, which may differ from `active`."""

    active: bool
    wanted: bool
    fixed: bool
    group: str


def features(interface: str) -> dict[str, Feature]:
    """The features of an interface by name, with groups."""
    found = {}
    group = ""
    for line in tool("ethtool", "-k", interface).splitlines():
        match = FEATURE.match(line)
        if match is None:
            continue
        group = group if match[1] else match[2]
        active = match[3] == "on"
        wanted = match[5] == "on" if match[5] else active
        found[match[2]] = Feature(active, wanted, match[4] is not None, group)
    return found


def single(found: dict[str, Feature]) -> dict[str, bool]:
    """The wanted state of each feature that can be changed; a group that shows its features is none."""
    groups = {one.group for name, one in found.items() if name != one.group}
    return {name: one.wanted for name, one in found.items() if not one.fixed and name not in groups}


def plan_offloads(request: Record) -> Record | None:
    """Groups of offloads, by the names of `ethtool -k`, that are to be off."""
    interface, off = request["interface"], list(request["off"])
    found = features(interface)
    unknown = [name for name in off if name not in SHORT]
    if unknown:
        raise Refused(f"no offload {', '.join(unknown)}; valid: {', '.join(SHORT)}")
    on = [name for name in off if name in found and found[name].active]
    if not on:
        return None
    fixed = {one.group for one in found.values() if one.active and one.fixed}
    stuck = [name for name in on if name in fixed and name != "rx-checksumming"]
    if stuck:
        raise Refused(f"offloads of {interface} cannot be turned off: {', '.join(stuck)}")
    # A NIC that cannot but check the checksums of what it receives changes no frame.
    on = [name for name in on if name not in fixed]
    return {"interface": interface, "off": on, "old": single(found)} if on else None


def make_offloads(record: Record) -> None:
    """Turn them off, and check that they are."""
    words = [word for name in record["off"] for word in (SHORT[name], "off")]
    tool("ethtool", "-K", record["interface"], *words)
    found = features(record["interface"])
    still = [name for name in record["off"] if found[name].active]
    if still:
        undo_offloads(record)
        raise Refused(f"offloads of {record['interface']} stay on: {', '.join(still)}")


def undo_offloads(record: Record) -> str | None:
    """Ask again for what was wanted of each feature."""
    now = single(features(record["interface"]))
    differ = {name: old for name, old in record["old"].items() if name in now and now[name] != old}
    if differ:
        words = [w for name, old in differ.items() for w in (SHORT.get(name, name), "on" if old else "off")]
        tool("ethtool", "-K", record["interface"], *words)
    return None


def has_address(record: Record) -> bool:
    """Whether an interface has an address."""
    shown = json.loads(tool("ip", "-json", "address", "show", "dev", record["interface"]))
    have = {f"{one['local']}/{one['prefixlen']}" for link in shown for one in link.get("addr_info", [])}
    return record["address"] in have


def plan_address(request: Record) -> Record | None:
    """An address with its prefix length, of an interface."""
    record = {"interface": request["interface"], "address": request["address"]}
    return None if has_address(record) else record


def make_address(record: Record) -> None:
    """Add it."""
    extra = ["nodad"] if ":" in record["address"] else []
    tool("ip", "address", "add", record["address"], "dev", record["interface"], *extra)


def undo_address(record: Record) -> str | None:
    """Delete it, if it is still there."""
    if has_address(record):
        tool("ip", "address", "delete", record["address"], "dev", record["interface"])
    return None


def route_words(record: Record) -> list[str]:
    """A route as arguments of ip."""
    via = ["via", record["via"]] if record.get("via") else []
    return [record["destination"], *via, "dev", record["interface"]]


def has_route(record: Record) -> bool:
    """Whether there is that route, with that gateway or without one."""
    family = "-6" if ":" in record["destination"] else "-4"
    where = [record["destination"], "dev", record["interface"]]
    shown = json.loads(tool("ip", family, "-json", "route", "show", "exact", *where) or "[]")
    return any(route.get("gateway") == record.get("via") for route in shown)


def plan_route(request: Record) -> Record | None:
    """A route to a destination by an interface, and by a gateway if `via` is given."""
    record = {key: request.get(key) for key in ("destination", "interface", "via")}
    return None if has_route(record) else record


def make_route(record: Record) -> None:
    """Add it; another route to the destination makes ip refuse."""
    tool("ip", "route", "add", *route_words(record))


def undo_route(record: Record) -> str | None:
    """Delete it, if it is still there."""
    if has_route(record):
        tool("ip", "route", "delete", *route_words(record))
    return None


def family_of(record: Record) -> str:
    """ip's option for the family of an address."""
    return "-6" if ":" in record["address"] else "-4"


def neighbours(record: Record) -> list[Record]:
    """The entries of an address in an interface's table of neighbours."""
    family = family_of(record)
    where = ["to", record["address"], "dev", record["interface"]]
    found: list[Record] = json.loads(tool("ip", family, "-json", "neigh", "show", *where) or "[]")
    return found


def has_neighbour(record: Record) -> bool:
    """Whether that neighbour is known for good."""
    return any(
        one.get("lladdr") == record["mac"] and "PERMANENT" in one.get("state", [])
        for one in neighbours(record)
    )


def plan_neighbour(request: Record) -> Record | None:
    """The MAC address of a neighbour. Raises Refused if somebody has given it another one for good."""
    record = {key: request[key] for key in ("interface", "address", "mac")}
    if has_neighbour(record):
        return None
    if any("PERMANENT" in one.get("state", []) for one in neighbours(record)):
        raise Refused(f"{record['interface']} has another neighbour {record['address']}, for good")
    return record


def make_neighbour(record: Record) -> None:
    """Enter it for good, so that nobody asks for it."""
    where = [record["address"], "lladdr", record["mac"], "dev", record["interface"]]
    tool("ip", "neigh", "replace", *where, "nud", "permanent")


def undo_neighbour(record: Record) -> str | None:
    """Forget it, if it is still known."""
    if has_neighbour(record):
        tool("ip", "neigh", "delete", record["address"], "dev", record["interface"])
    return None


def network_of(address: str) -> str:
    """The network of an address with its prefix length."""
    return str(ip_interface(address).network)


def routes_of(record: Record) -> list[str]:
    """The routes to the network of an address, as `ip route` shows them."""
    shown = tool("ip", family_of(record), "route", "show", "exact", network_of(record["address"]))
    return [line.strip() for line in shown.splitlines() if line.strip()]


def plan_silence(request: Record) -> Record | None:
    """An interface's address, to whose network nothing more is sent, and the routes that give way."""
    record = {"interface": request["interface"], "address": request["address"]}
    routes = routes_of(record)
    if any(line.startswith("unreachable") for line in routes):
        return None
    # `ip route replace` takes those without a metric; others stay, behind the new one, as all of IPv6 do.
    return {**record, "old": [line for line in routes if " metric " not in line]}


def make_silence(record: Record) -> None:
    """Make the network unreachable, so that its packets do not take another way either."""
    tool("ip", family_of(record), "route", "replace", *unreachable(record))


def unreachable(record: Record) -> list[str]:
    """The route that makes the network of an address unreachable; every route of IPv6 has a metric."""
    metric = ["metric", "1"] if ":" in record["address"] else []
    return ["unreachable", network_of(record["address"]), *metric]


def undo_silence(record: Record) -> str | None:
    """Put back the routes that gave way."""
    if not any(line.startswith("unreachable") for line in routes_of(record)):
        return None
    tool("ip", family_of(record), "route", "delete", *unreachable(record))
    if has_address(record):
        for line in record["old"]:
            tool("ip", "route", "add", *(word for word in line.split() if word not in ROUTE_FLAGS))
    return None


def start_time(pid: int) -> str | None:
    """When a process began, in ticks, which with its id names it; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def undo_program(record: Record) -> str | None:
    """End a program that an earlier helper started and could not end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if start_time(record["pid"]) != record["began"]:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(record["pid"], number)
        give_up = time.monotonic() + GRACE_S
        while start_time(record["pid"]) == record["began"] and time.monotonic() < give_up:
            time.sleep(0.01)
    return None if start_time(record["pid"]) != record["began"] else f"program {record['name']} does not end"


PLAN: dict[str, Callable[[Record], Any]] = {
    "sysctl": plan_sysctl,
    "offloads": plan_offloads,
    "address": plan_address,
    "route": plan_route,
    "neighbour": plan_neighbour,
    "silence": plan_silence,
}
MAKE: dict[str, Callable[[Record], None]] = {
    "sysctl": make_sysctl,
    "offloads": make_offloads,
    "address": make_address,
    "route": make_route,
    "neighbour": make_neighbour,
    "silence": make_silence,
}
UNDO: dict[str, Callable[[Record], Any]] = {
    "sysctl": undo_sysctl,
    "offloads": undo_offloads,
    "address": undo_address,
    "route": undo_route,
    "neighbour": undo_neighbour,
    "silence": undo_silence,
    "program": undo_program,
}


def described(record: Record) -> str:
    """A change in a few words."""
    words = [str(record[key]) for key in ("name", "interface", "address", "destination") if record.get(key)]
    return " ".join([record.get("kind", "?"), *words])
