# SPDX-License-Identifier: Apache-2.0
"""What the helper answers: files that programs left, counters of interfaces, congestion controls.

Runs on the host with Python 3.9 and its standard library.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Callable

from weir.testbed.remote.changes import PATH, Record, Refused, tool
from weir.testbed.remote.iperf3 import lacking_options
from weir.topo.congestion import congestion_problem

READ_BYTES = 2**18
_STATISTICS = Path("/sys/class/net")


class Files:
    """The files of a folder by their names."""

    def __init__(self, folder: Path) -> None:
        """Take the folder."""
        self.folder = folder

    def path(self, name: str) -> Path:
        """A file of the folder. Raises Refused for a name with a folder in it."""
        if Path(name).name != name or name in ("", ".", ".."):
            raise Refused(f"{name!r} is not a name of a file in the work folder")
        return self.folder / name

    def size(self, request: Record) -> int:
        """The size of a file in bytes."""
        path = self.path(request["name"])
        try:
            return path.stat().st_size
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from error

    def read(self, request: Record) -> str:
        """A piece of a file from an offset on, in base64; empty at the end."""
        path = self.path(request["name"])
        try:
            with path.open("rb") as file:
                file.seek(request["offset"])
                return base64.b64encode(file.read(READ_BYTES)).decode()
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from error

    def delete(self, request: Record) -> int:
        """Delete files whose names begin with a prefix; returns how many."""
        prefix = self.path(request["prefix"]).name
        found = [path for path in self.folder.iterdir() if path.name.startswith(prefix) and path.is_file()]
        for path in found:
            path.unlink()
        return len(found)

    def free(self, _request: Record) -> int:
        """Free bytes of the folder's disk."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize


def counters(request: Record) -> dict[str, int]:
    """The kernel's counters of an interface."""
    folder = _STATISTICS / request["interface"] / "statistics"
    try:
        return {path.name: int(path.read_text()) for path in folder.iterdir()}
    except OSError as error:
        raise Refused(f"no counters of interface {request['interface']}: {error.strerror}") from error


def interface(request: Record) -> dict[str, Any]:
    """MAC address, state and addresses of an interface."""
    (link,) = json.loads(tool("ip", "-json", "address", "show", "dev", request["interface"]))
    addresses = [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]]
    return {"mac": link["address"], "flags": link["flags"], "mtu": link["mtu"], "addresses": addresses}


def ways(request: Record) -> list[str | None]:
    """The interface by which packets to each of some addresses leave; None if there is no route."""
    found: list[str | None] = []
    for address in request["addresses"]:
        try:
            (route,) = json.loads(tool("ip", "-json", "route", "get", address))
        except Refused:
            found.append(None)
            continue
        found.append(route.get("dev"))
    return found


def time_stamp_types(request: Record) -> str:
    """What tcpdump says of the time stamps of an interface."""
    return tool("tcpdump", "-J", "-i", request["interface"])


def missing(request: Record) -> list[str]:
    """Those of some programs that are not on the PATH."""
    return [name for name in request["names"] if shutil.which(name, path=PATH) is None]


def services(folder: Path) -> dict[str, Callable[[Record], Any]]:
    """What the helper answers from files."""
    files = Files(folder)
    return {
        "size": files.size,
        "read": files.read,
        "delete": files.delete,
        "free": files.free,
        "counters": counters,
        "interface": interface,
        "missing": missing,
        "iperf3_lacks": lambda _request: lacking_options(tool("iperf3", "--help")),
        "ways": ways,
        "time_stamp_types": time_stamp_types,
        "time": lambda _request: time.time_ns(),
        "congestion_problem": lambda request: congestion_problem(request["name"]),
    }
