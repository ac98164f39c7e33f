# SPDX-License-Identifier: Apache-2.0
"""The findings of a probe as checks: what a host lacks, and the command that mends it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Any

from weir.controlplane.units import format_size
from weir.testbed.clock import ClockOffset
from weir.testbed.features import Feature, cannot_be_off, read_features
from weir.testbed.inventory import HostEntry, Privileges
from weir.testbed.scripts import OLDEST_PYTHON

MTU_BYTES = 1500
CONGESTION_CONTROLS = ("bbr", "cubic")
"""Congestion controls of the shipped experiments."""
_PACKAGES = {"ip": "iproute2", "tc": "iproute2"}
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13}
_SYNCHRONISED_S = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One requirement on a host, or something that serves, and the command that mends it."""

    name: str
    required: bool
    ok: bool
    found: str
    mend: str | None = None


def findings(host: HostEntry, privileges: Privileges, probe: Mapping[str, Any]) -> Iterator[Finding]:
    """All checks of what the probe found, in the order in which a user should mend them."""
    version = probe["python"]
    text = ".".join(map(str, version))
    yield _of("Python", tuple(version[:2]) >= OLDEST_PYTHON, text, "install Python 3.9 or newer")
    for name, tool in probe["tools"].items():
        found = "not installed" if tool is None else tool["version"] or tool["path"]
        if tool is not None and tool.get("lacks"):
            yield Finding(
                name, True, False, f"{found} has no {', '.join(tool['lacks'])}", f"a newer version of {name}"
            )
            continue
        yield _of(name, tool is not None, found, f"sudo apt-get install {_PACKAGES.get(name, name)}")
    yield privileges_found(privileges, probe)
    yield from _congestion_controls(probe["congestion_controls"], _lacking(probe))
    yield from _interface(host, probe["interface"])
    yield _disk(host, probe["disk"])


def privileges_found(wanted: Privileges, probe: Mapping[str, Any]) -> Finding:
    """Whether programs of weir may change the interface and capture from it."""
    lacking = _lacking(probe)
    mends = {
        "root": "log in as root (ssh.user), or privileges: sudo",
        "sudo": "allow sudo without a password: `alice ALL=(root) NOPASSWD: ALL` in /etc/sudoers.d/weir",
        "capabilities": f"give the user {' and '.join(_CAPABILITIES)} (pam_cap(8)), or privileges: sudo",
    }
    uid = probe["uid"]
    if lacking:
        return Finding(
            "privileges", True, False, f"{wanted}: uid {uid} lacks {', '.join(lacking)}", mends[wanted]
        )
    return Finding("privileges", True, True, f"{wanted}: uid {uid}")


def clock_found(probe: Mapping[str, Any], offset: ClockOffset | None) -> Finding:
    """Who sets the host's clock, whether it follows, and how far it is from this machine's."""
    clock = probe["clock"]
    services = clock["services"]
    followed, said = False, "no service sets it"
    chrony = (clock["chrony"] or "").strip().split(",")
    if len(chrony) > 4 and chrony[2].isdigit():
        followed = chrony[2] not in ("0", "16") and not chrony[0].startswith("7F7F0101")
        said = f"chrony: {float(chrony[4]):+.6f} s from its source" if followed else "chrony has no source"
    elif "ptp4l" in services:
        followed, said = True, f"{' and '.join(services)} run"
    elif (clock["timedatectl"] or "").strip() == "yes":
        followed, said = True, "synchronised (timedatectl)"
    elif services:
        said = f"{' and '.join(services)} run, not known to be synchronised"
    near = True
    if offset is not None:
        near = abs(offset.offset_ns) < _SYNCHRONISED_S * 1e9
        said += (
            f"; {offset.offset_ns / 1e6:+.3f} ms from here, to {offset.error_ns / 1e6:.3f} ms "
            f"(RTT {offset.rtt_ns / 1e6:.3f} ms)"
        )
    return Finding("clock", False, followed and near, said, "sudo apt-get install chrony")


def _of(name: str, ok: bool, found: str, mend: str, *, required: bool = True) -> Finding:
    return Finding(name, required, ok, found, None if ok else mend)


def _lacking(probe: Mapping[str, Any]) -> list[str]:
    return [name for name, bit in _CAPABILITIES.items() if not probe["capabilities"] >> bit & 1]


def _congestion_controls(found: Mapping[str, Sequence[str]], lacking: list[str]) -> Iterator[Finding]:
    for name in CONGESTION_CONTROLS:
        label = f"congestion control {name}"
        if name in found["allowed"]:
            yield Finding(label, True, True, "available to every user")
        elif name in found["available"]:
            mend = "sudo sysctl -w net.ipv4.tcp_allowed_congestion_control="
            mend += f"'{' '.join([*found['allowed'], name])}'"
            yield _of(label, not lacking, "available to privileged programs", mend)
        elif name in found["loadable"]:
            yield Finding(label, True, False, "in a module that is not loaded", f"sudo modprobe tcp_{name}")
        else:
            yield Finding(label, True, False, "not in this kernel", f"a kernel with tcp_{name}")


def _interface(host: HostEntry, found: Mapping[str, Any] | None) -> Iterator[Finding]:
    name = host.interface
    label = f"interface {name}"
    if found is None:
        yield Finding(label, True, False, "no such interface", "the name that `ip link` shows, as interface")
        return
    mac = found["mac"]
    if host.mac is not None and mac != host.mac:
        yield Finding(
            label, True, False, f"its MAC address is {mac}, not {host.mac}", "the right interface, or mac"
        )
        return
    up = found["state"] in ("UP", "UNKNOWN") and "UP" in found["flags"]
    speed = found["speed_mbps"]
    rate = f", {speed} Mbit/s" if speed and speed.isdigit() else ""
    if "UP" not in found["flags"]:
        mend = f"sudo ip link set {name} up"
    else:
        mend = "connect its cable, and set the other end up"
    yield _of(label, up, f"{found['state'].lower()}, {mac}{rate}", mend)
    mtu = found["mtu"]
    yield _of("MTU", mtu >= MTU_BYTES, str(mtu), f"sudo ip link set {name} mtu {MTU_BYTES}")
    present = {str(ip_interface(address)) for address in found["addresses"]}
    for wanted in filter(None, (host.address, host.address6)):
        said = (
            "present"
            if wanted in present
            else f"not on {name}, which has {', '.join(sorted(present)) or 'none'}"
        )
        mend = f"nothing: a run adds it, or sudo ip address add {wanted} dev {name}"
        yield _of(f"address {wanted}", wanted in present, said, mend, required=False)
    yield _offloads(name, found["features"])
    yield _time_stamping(found["time_stamping"])


def _offloads(interface: str, features: str | None) -> Finding:
    if features is None:
        return Finding("offloads", True, False, "unknown: ethtool shows none", "sudo apt-get install ethtool")
    known: Mapping[str, Feature] = read_features(features)
    fixed = cannot_be_off(known)
    on = [feature.name for feature in known.values() if feature.is_offload and feature.active]
    if fixed:
        found = f"cannot be turned off: {', '.join(fixed)}"
        return Finding("offloads", True, False, found, f"another interface than {interface} (another driver)")
    return Finding("offloads", True, True, f"on, and can be turned off: {', '.join(on)}" if on else "off")


def _time_stamping(shown: str | None) -> Finding:
    words = set((shown or "").split())
    hardware = {"hardware-transmit", "hardware-receive"} <= words
    software = {"software-transmit", "software-receive"} <= words
    found = (
        "by the NIC" if hardware else "by the kernel only" if software else "by the kernel, on reception only"
    )
    return Finding(
        "time stamps", False, hardware, found, None if hardware else "a NIC with PTP, for less noise"
    )


def _disk(host: HostEntry, found: Mapping[str, Any]) -> Finding:
    folder, wanted = found["folder"], format_size(host.disk_limit)
    if "error" in found:
        return Finding("disk", True, False, f"{folder}: {found['error']}", "another work_folder")
    if not found["is_folder"]:
        return Finding("disk", True, False, f"{folder} is not a folder", "another work_folder")
    if not found["writable"]:
        return Finding(
            "disk", True, False, f"{folder} cannot be written", "another work_folder, or its owner"
        )
    free = found["free_bytes"]
    said = f"{_rounded(free)} free for {folder}"
    mend = f"free {wanted} there, or a smaller disk_limit, or another work_folder"
    return _of("disk", free >= host.disk_limit, f"{said}, disk_limit is {wanted}", mend)


def _rounded(size: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"
