# SPDX-License-Identifier: Apache-2.0
"""Finds the system programs that this package needs, and names the Debian package of a missing one."""

import os
import shutil
import sys
from pathlib import Path

# program -> Debian package
TOOLS = {
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "iperf3": "iperf3",
    "tcpdump": "tcpdump",
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
    """Path of a program that weir builds (`weir-switch`, `weir-collector`).

    Searched first in the folder of the running Python, where `make setup` puts it, then on PATH.
    """
    beside = Path(sys.executable).parent / name
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which(name)
    if found is None:
        raise ToolMissingError(f"{name} is neither in {beside.parent} nor on PATH; build it with: make setup")
    return Path(found)
