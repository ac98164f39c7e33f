# SPDX-License-Identifier: Apache-2.0
"""The embedded switch in virtual time, deterministic: packets and times in, packets and times out."""

from weir.softswitch.errors import RequestRefusedError
from weir.softswitch.events import ControllerMessage, Event, SentFrame
from weir.softswitch.switch import VirtualSwitch
from weir.telemetry.captures import CaptureFormatError, Record, read_pcap, write_pcap

__all__ = [
    "CaptureFormatError",
    "ControllerMessage",
    "Event",
    "Record",
    "RequestRefusedError",
    "SentFrame",
    "VirtualSwitch",
    "read_pcap",
    "write_pcap",
]
