# SPDX-License-Identifier: Apache-2.0
"""Finds the system programs that this package needs, and names the Debian package of a missing one."""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from weir.rundir.software import repair_command

# program -> Debian package
TOOLS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "chrt": "util-linux",
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
    "iperf3": "iperf3",
    "tcpdump": "tcpdump",
    "stdbuf": "coreutils",
}
# An ordinary Debian user has no sbin on PATH, but may run its programs.
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin")


class ToolMissingError(Exception):
    """A program is not installed; the text has the command that installs it."""


def search_path() -> str:
    """PATH, followed by the folders of system programs."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*folders, *_SYSTEM_FOLDERS])


def find_tool(name: str) -> str:
    """Absolute path of a program in `TOOLS`."""
    path = shutil.which(name, path=search_path())
    if path is None:
        package = TOOLS[name]
        raise ToolMissingError(f"{name} is not installed; install it with: sudo apt-get install {package}")
    return path


def missing_tools() -> dict[str, str]:
    """Programs in `TOOLS` that are not installed, each with its Debian package."""
    missing = {}
    for name, package in TOOLS.items():
        try:
            find_tool(name)
        except ToolMissingError:
            missing[name] = package
    return missing


def find_own_program(name: str) -> Path:
    """Path of a program that is part of weir (`weir-switch`, `weir-collector`).

    Searched first in the folder of the running Python, whose environment need not be activated, then where
    pip installs for all users, on PATH, and where pip installs for one user. Raises ToolMissingError.
    """
    beside = Path(sys.executable).parent
    of_user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    places = [str(beside), sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath), of_user]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise ToolMissingError(
            f"{name} is neither in {beside} nor on PATH; install it with: {repair_command()}"
        )
    return Path(found)
