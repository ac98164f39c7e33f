# SPDX-License-Identifier: Apache-2.0
"""The outputs of the switch: frames, and messages to the controller."""

from __future__ import annotations

from dataclasses import dataclass

from finsy.proto import p4r


@dataclass(frozen=True, slots=True)
class SentFrame:
    """A frame that left through a port."""

    time_ns: int
    port: int
    frame: bytes
    """Ethernet without FCS."""


@dataclass(frozen=True, slots=True)
class ControllerMessage:
    """A message on the controller's stream: a packet-in, a digest list, or another notification."""

    time_ns: int
    message: p4r.StreamMessageResponse


Event = SentFrame | ControllerMessage
