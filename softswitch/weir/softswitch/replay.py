# SPDX-License-Identifier: Apache-2.0
"""Replays captures through the switch: one file per ingress port, the frames of each egress port out."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from finsy.proto import p4i, p4r
from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from weir.softswitch.events import ControllerMessage, Event
from weir.softswitch.switch import VirtualSwitch
from weir.telemetry.captures import Record, read_pcap

_BATCH_FRAMES = 4096
_TEXT = (".txtpb", ".txt", ".pbtxt", ".textproto")


class InputFileError(ValueError):
    """A file of the pipeline or of requests cannot be parsed."""


@dataclass
class Replay:
    """The result of a replay; times in ns since the epoch, like those of the captures."""

    received: int = 0
    sent: dict[int, list[Record]] = field(default_factory=dict)
    """Frames by egress port, in order of time."""
    messages: list[ControllerMessage] = field(default_factory=list)
    """Packet-ins, digest lists and other notifications."""


def read_p4info(path: Path) -> p4i.P4Info:
    """Read a P4Info in text format (``.txtpb``) or binary.

    Raises:
        InputFileError: the file is no P4Info.
        OSError: the file cannot be read.
    """
    p4info = p4i.P4Info()
    _parse(path, p4info)
    return p4info


def read_writes(path: Path, device_id: int) -> p4r.WriteRequest:
    """Read a WriteRequest in text format (``.txtpb``) or binary; a device id of 0 becomes ``device_id``.

    Raises:
        InputFileError: the file is no WriteRequest.
        OSError: the file cannot be read.
    """
    request = p4r.WriteRequest()
    _parse(path, request)
    request.device_id = request.device_id or device_id
    return request


def _parse(path: Path, message: Message) -> None:
    name = message.DESCRIPTOR.full_name
    try:
        if path.suffix in _TEXT:
            text_format.Parse(path.read_text(encoding="utf-8"), message)
        else:
            message.ParseFromString(path.read_bytes())
    except (text_format.ParseError, DecodeError, UnicodeDecodeError) as error:
        form = "text format" if path.suffix in _TEXT else f"binary (text ends in {' '.join(_TEXT)})"
        raise InputFileError(f"{path}: {error}; valid: a {name} in {form}") from error


def replay(switch: VirtualSwitch, inputs: Mapping[int, Path], linger_ns: int) -> Replay:
    """Replay each capture at its port, then run up to ``linger_ns`` more for frames still in the switch.

    The earliest frame arrives at the switch's current time; frames with equal times arrive in the order of
    ``inputs``.

    Raises:
        CaptureFormatError: an input is not a readable capture.
        ValueError: an input is not in order of time.
        OSError: an input cannot be read.
    """
    result = Replay()
    arrivals = heapq.merge(
        *(_arrivals(port, path) for port, path in inputs.items()), key=lambda arrival: arrival[2]
    )
    first = next(arrivals, None)
    if first is None:
        return result
    epoch_ns = first[2] - switch.now_ns
    _collect(result, epoch_ns, switch.process(first[0], first[1], switch.now_ns))
    result.received = 1
    while batch := list(islice(arrivals, _BATCH_FRAMES)):
        packets = [(port, frame, at_ns - epoch_ns) for port, frame, at_ns in batch]
        _collect(result, epoch_ns, switch.process_batch(packets))
        result.received += len(batch)
    _collect(result, epoch_ns, switch.run_until_idle(switch.now_ns + linger_ns))
    return result


def _arrivals(port: int, path: Path) -> Iterator[tuple[int, bytes, int]]:
    last_ns: int | None = None
    for number, record in enumerate(read_pcap(path), 1):
        if last_ns is not None and record.time_ns < last_ns:
            raise ValueError(
                f"{path}: record {number} is {last_ns - record.time_ns} ns older than the one before; "
                "valid: a capture in order of time (reordercap sorts one)"
            )
        last_ns = record.time_ns
        yield port, record.frame, record.time_ns


def _collect(result: Replay, epoch_ns: int, events: Iterable[Event]) -> None:
    for event in events:
        if isinstance(event, ControllerMessage):
            result.messages.append(ControllerMessage(event.time_ns + epoch_ns, event.message))
        else:
            record = Record(event.time_ns + epoch_ns, event.frame)
            result.sent.setdefault(event.port, []).append(record)
