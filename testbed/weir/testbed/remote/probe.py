# SPDX-License-Identifier: Apache-2.0
"""The properties of a host: a JSON object on stdout, then the host's time for each line on stdin, until EOF.

Runs on the host with Python 3.9 and its standard library, changes nothing, and needs no privileges: what it
may not read is missing in its answer. Argument: a JSON object with interface, and work_folder or null.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from weir.testbed.remote.iperf3 import lacking_options

TOOLS = {
    "iperf3": ["--version"],
    "tcpdump": ["--version"],
    "ethtool": ["--version"],
    "ip": ["-V"],
    "tc": ["-V"],
    "gzip": ["--version"],
}
# An ordinary user has no sbin on PATH, but may run its programs.
PATH = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"
PATIENCE_S = 10
TIME_SERVICES = ("chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys")  # as comm has them: 15 characters


def output(argv: list[str]) -> str | None:
    """The output of a program, or None if it is missing, fails or takes too long."""
    path = shutil.which(argv[0], path=PATH)
    if path is None:
        return None
    environment = dict(os.environ, LC_ALL="C", PATH=PATH)
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
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def text(path: str | Path) -> str | None:
    """The text of a file, or None."""
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def tools() -> dict[str, Any]:
    """Path and version of each tool; null for one that is missing."""
    found: dict[str, Any] = {}
    for name, flag in TOOLS.items():
        path = shutil.which(name, path=PATH)
        said = output([name, *flag])
        version = said.strip().splitlines()[0] if said and said.strip() else None
        found[name] = None if path is None else {"path": path, "version": version}
    if found["iperf3"] is not None:
        found["iperf3"]["lacks"] = lacking_options(output(["iperf3", "--help"]) or "")
    return found


def capabilities() -> int:
    """The effective capabilities as a number."""
    for line in (text("/proc/self/status") or "").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def congestion_controls() -> dict[str, list[str]]:
    """Names that are available, that every user may use, and that a module of this kernel would add."""
    ipv4 = "/proc/sys/net/ipv4/"
    modules = Path("/lib/modules", platform.release(), "kernel/net/ipv4").glob("tcp_*.ko*")
    loadable = sorted(path.name.split(".")[0][len("tcp_") :] for path in modules)
    return {
        "available": (text(ipv4 + "tcp_available_congestion_control") or "").split(),
        "allowed": (text(ipv4 + "tcp_allowed_congestion_control") or "").split(),
        "loadable": loadable,
    }


def interface(name: str) -> dict[str, Any] | None:
    """State, addresses, features and time stamping of an interface; null if there is none."""
    folder = f"/sys/class/net/{name}/"
    shown = output(["ip", "-json", "address", "show", "dev", name])
    try:
        links = [link for link in json.loads(shown or "[]") if link]
    except ValueError:
        links = []
    if not links and not is_folder(Path(folder)):
        return None
    link = links[0] if links else {}
    return {
        "state": link.get("operstate") or (text(folder + "operstate") or "unknown").upper(),
        "flags": link.get("flags", []),
        "mtu": link.get("mtu") or int(text(folder + "mtu") or 0),
        "mac": link.get("address") or text(folder + "address"),
        "speed_mbps": text(folder + "speed"),
        "addresses": [f"{one['local']}/{one['prefixlen']}" for one in link.get("addr_info", [])],
        "features": output(["ethtool", "-k", name]),
        "time_stamping": output(["ethtool", "-T", name]),
    }


def clock() -> dict[str, Any]:
    """The state of the services that set this host's clock."""
    running: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        name = text(path)
        if name is not None and name in TIME_SERVICES:
            running.add(name)
    return {
        "services": sorted(running),
        "chrony": output(["chronyc", "-c", "tracking"]),
        "timedatectl": output(["timedatectl", "show", "-p", "NTPSynchronized", "--value"]),
        "source": text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }


def is_folder(path: Path) -> bool:
    """Whether there is a folder that this user can reach; Path.is_dir() of some versions raises otherwise."""
    try:
        return path.is_dir()
    except OSError:
        return False


def disk(folder: Path) -> dict[str, Any]:
    """Free bytes where the work folder is or would be, and whether this user may write there."""
    place = folder
    while not is_folder(place):
        place = place.parent
    try:
        free = os.statvfs(place)
    except OSError as error:
        return {"folder": str(folder), "error": error.strerror}
    return {
        "folder": str(folder),
        "free_bytes": free.f_bavail * free.f_frsize,
        "writable": os.access(place, os.W_OK | os.X_OK),
        "is_folder": is_folder(folder) or not os.path.lexists(folder),
    }


def main() -> None:
    """Print what the host has, then answer with the time until stdin ends."""
    asked = json.loads(sys.argv[1])
    answer = {
        "schema": 1,
        "python": list(sys.version_info[:3]),
        "kernel": platform.release(),
        "uid": os.geteuid(),
        "capabilities": capabilities(),
        "tools": tools(),
        "congestion_controls": congestion_controls(),
        "interface": interface(asked["interface"]),
        "clock": clock(),
        "disk": disk(Path(asked["work_folder"] or f"/var/tmp/weir-{os.geteuid()}")),
    }
    os.write(1, json.dumps(answer).encode() + b"\n")
    while os.read(0, 4096):
        os.write(1, b"%d\n" % time.time_ns())


if __name__ == "__main__":
    main()
