# SPDX-License-Identifier: Apache-2.0
"""Send frames into the switch and collect those that leave, without sleeping: a sentinel shows that all have.

A sentinel is a frame that the program forwards to one port. Ports are first in, first out. So when the
sentinel has left a port, every frame that entered before it and leaves there has left too, and "no frame
left" can be asserted. A copy that egress mirrors reaches the collector's port only after its packet left
another: that takes a second round.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from weir.ptftests.config import PORTS

SENTINEL_TYPE = 0x88B6  # IEEE 802: for local experiments
_SENTINEL_BYTES = 60
# bmv2's egress queues hold 64 packets; each frame may leave as a copy and a report through one port.
_CHUNK = 16
# Only a broken switch takes this long.
PATIENCE_S = 20.0

Frames = Mapping[int, list[bytes]]
"""Frames that left the switch, by port, in order."""


class Dataplane(Protocol):
    """The part of `ptf.dataplane.DataPlane` that this module uses."""

    def send(self, device_number: int, port_number: int, packet: bytes) -> int:
        """Send into a port."""

    def poll(
        self, device_number: int = 0, port_number: int | None = None, timeout: float | None = None
    ) -> tuple[int, int | None, bytes | None, float]:
        """Take the oldest frame of a port; None if none arrives in time."""

    def flush(self) -> None:
        """Discard all received frames."""


class MissingFrame(AssertionError):
    """A frame that had to leave the switch did not."""


def sentinel_mac(port: int) -> int:
    """Destination of the sentinels that leave through a port."""
    return 0x02_00_00_00_FF_00 + port


class Traffic:
    """The links of the switch, by the tests' port numbers."""

    def __init__(self, dataplane: Dataplane, gap_s: float = 0.0) -> None:
        """Use PTF's dataplane, without the frames received so far; `gap_s`: time after each frame."""
        self._dataplane, self._gap_s = dataplane, gap_s
        self._tags = itertools.count(1)
        dataplane.flush()

    def send(self, port: int, frame: bytes) -> None:
        """Send one frame, without waiting for anything."""
        self._dataplane.send(0, port, frame)
        if self._gap_s:
            time.sleep(self._gap_s)

    def exchange(
        self, port: int, frames: Iterable[bytes], ports: Sequence[int] = PORTS, rounds: int = 1
    ) -> Frames:
        """Send frames into a port and return all that left through `ports` meanwhile.

        `rounds`: 2 when egress mirrors.

        Raises:
            MissingFrame: a sentinel did not leave: the switch forwards nothing, or a queue overflowed.
        """
        left: dict[int, list[bytes]] = {number: [] for number in ports}
        for chunk in _chunks(frames):
            for frame in chunk:
                self.send(port, frame)
            for _ in range(rounds):
                for number, passed in self.flushed(port, ports).items():
                    left[number] += passed
        return left

    def flushed(self, port: int, ports: Sequence[int] = PORTS) -> Frames:
        """Frames that leave through `ports` before sentinels that enter `port` now."""
        tag = b"sentinel%08d" % next(self._tags)
        for number in ports:
            head = sentinel_mac(number).to_bytes(6, "big") + bytes(6) + SENTINEL_TYPE.to_bytes(2, "big")
            self.send(port, (head + tag).ljust(_SENTINEL_BYTES, b"\0"))
        return {number: self._until(number, tag) for number in ports}

    def await_frames(self, port: int, count: int) -> list[bytes]:
        """The next `count` frames that leave through a port, without sentinels.

        For packets that sentinels may overtake, such as deflected ones. Raises MissingFrame.
        """
        frames: list[bytes] = []
        while len(frames) < count:
            frame = self._next(port, f"{count - len(frames)} more of {count} frames")
            if not _is_sentinel(frame):
                frames.append(frame)
        return frames

    def _until(self, port: int, tag: bytes) -> list[bytes]:
        frames: list[bytes] = []
        while True:
            frame = self._next(port, "the sentinel")
            if _is_sentinel(frame):
                if tag in frame:
                    return frames
            else:
                frames.append(frame)

    def _next(self, port: int, what: str) -> bytes:
        deadline = time.monotonic() + PATIENCE_S
        while (left := deadline - time.monotonic()) > 0:
            frame = self._dataplane.poll(0, port, timeout=left)[2]
            if frame is not None:
                return bytes(frame)
        raise MissingFrame(f"{what} did not leave through port {port} within {PATIENCE_S:g} s")


def _is_sentinel(frame: bytes) -> bool:
    return frame[12:14] == SENTINEL_TYPE.to_bytes(2, "big")


def _chunks(frames: Iterable[bytes]) -> Iterable[list[bytes]]:
    """At least one, which may be empty."""
    remaining = iter(frames)
    yield list(itertools.islice(remaining, _CHUNK))
    while chunk := list(itertools.islice(remaining, _CHUNK)):
        yield chunk
