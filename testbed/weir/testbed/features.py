# SPDX-License-Identifier: Apache-2.0
"""The features of an interface as `ethtool -k` shows them, and which of them a capture must not have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

OFFLOADS = (
    "rx-checksumming",
    "tx-checksumming",
    "scatter-gather",
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
    "rx-vlan-offload",
    "tx-vlan-offload",
)
"""With one of these, a capture shows frames that were not on the wire so: larger, unfinished, without tag."""
NIC_TIME_STAMPS = ("adapter", "adapter_unsynced")
"""Types of time stamps of a network card (pcap-tstamp(7)): by the host's clock (better) and by its own."""
_TYPE = re.compile(r"^\s*(\w+) \(")
_LINE = re.compile(
    r"(\t?)([^:\s]+): (on|off)( \[fixed\])?( \[(?:requested on|requested off|not requested)\])?"
)


@dataclass(frozen=True)
class Feature:
    """A feature, or a group of them as ethtool shows it."""

    name: str
    group: str
    """The group that it is shown under; its own name for a group, or one alone."""
    active: bool
    fixed: bool

    @property
    def is_offload(self) -> bool:
        """Whether captures must not have it; only of groups and features alone."""
        return self.name in OFFLOADS


def read_features(shown: str) -> dict[str, Feature]:
    """The features by name, from the output of `ethtool -k`."""
    features: dict[str, Feature] = {}
    group = ""
    for line in shown.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        if not match[1]:
            group = match[2]
        features[match[2]] = Feature(match[2], group, match[3] == "on", match[4] is not None)
    return features


def nic_time_stamps(shown: str) -> str | None:
    """The type of the card's own time stamps, from the output of `tcpdump -J`; None if it makes none."""
    offered = {match[1] for line in shown.splitlines() if (match := _TYPE.match(line)) is not None}
    return next((name for name in NIC_TIME_STAMPS if name in offered), None)


def cannot_be_off(features: Mapping[str, Feature]) -> list[str]:
    """Offloads that are on and fixed, or hold a feature that is; by their groups' names.

    Receive checksums are left out: that the NIC checks them changes no frame of a capture.
    """
    fixed = {feature.group for feature in features.values() if feature.active and feature.fixed}
    return [name for name in OFFLOADS if name in fixed and name != "rx-checksumming"]
