# SPDX-License-Identifier: Apache-2.0
"""What leaves the switch."""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4r


@dataclass(frozen=True, slots=True)
class SentFrame:
    """A frame left through a port."""

    time_ns: int
    port: int
    frame: bytes
    """Ethernet without FCS."""


@dataclass(frozen=True, slots=True)
class ControllerMessage:
    """What a controller would get on its stream: a packet-in, a digest list, or another notification."""

    time_ns: int
    message: p4r.StreamMessageResponse


Event = SentFrame | ControllerMessage
