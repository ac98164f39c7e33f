# SPDX-License-Identifier: Apache-2.0
"""The registers of mirror sessions in pipe 0, which differ between the chips. Addresses are in bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from weir.ptftests.model.blocks import register

_MAX_TRUNCATION = 0x3FFF


class Mirrors(ABC):
    """A chip's mirror sessions."""

    max_session: int
    """The highest number of a session."""

    @abstractmethod
    def enable(self) -> bytes:
        """Enable mirroring, in ingress and in egress."""

    @abstractmethod
    def session(self, session: int, port: int | None, truncate_bytes: int = 0) -> bytes:
        """A mirror session to a port, cut to a length (0: whole); None disables it."""


class Mirrors1(Mirrors):
    """Tofino 1's: a table of sessions, each with five words and a control register."""

    max_session = 1023
    _BASE = 0x0200_0000 + 0x78_0000 + 0x2_0000
    _SESSION_BYTES, _SESSION_CONTROL, _SESSION_WORDS = 32, 20, 5
    _ENABLE = 0x8000
    _PORT_VALID = 1 << 3
    _MAX_ENTRIES = 56  # of 240 bytes, for one session, as the published driver sets it

    def enable(self) -> bytes:
        """See Mirrors."""
        return register(self._BASE + self._ENABLE, 0b11)

    def session(self, session: int, port: int | None, truncate_bytes: int = 0) -> bytes:
        """See Mirrors."""
        at = self._BASE + session * self._SESSION_BYTES
        if port is None:
            return register(at + self._SESSION_CONTROL, 0)
        length = min(truncate_bytes or _MAX_TRUNCATION, _MAX_TRUNCATION)
        words = [self._PORT_VALID | port << 4] + [0] * (self._SESSION_WORDS - 1)
        written = [register(at + 4 * number, word) for number, word in enumerate(words)]
        written.append(register(at + self._SESSION_CONTROL, 0b11 | self._MAX_ENTRIES << 8 | length << 16))
        return b"".join(written)


class Mirrors2(Mirrors):
    """Tofino 2's: a table of destinations, and in each of four slices a table of what is enabled and cut."""

    max_session = 255
    _BASE = 0x0400_0000 + 0xC8_0000
    _DESTINATION_WORDS = 0xC
    """Registers whose five words go to an entry of the table when that is written."""
    _DESTINATIONS = 0x2000
    _SLICE, _SLICE_BYTES, _SLICES = 0x1_0000, 0x800, 4
    _PORT_VALID = 1 << 14
    _ENABLED = 0b111
    """The session, for egress and for ingress."""
    _FCS_BYTES = 4  # counted by the hardware; the published driver adds them

    def enable(self) -> bytes:
        """See Mirrors. Each session has its own bits."""
        return b""

    def session(self, session: int, port: int | None, truncate_bytes: int = 0) -> bytes:
        """See Mirrors."""
        written, control = [], 0
        if port is not None:
            length = min((truncate_bytes or _MAX_TRUNCATION) + self._FCS_BYTES, _MAX_TRUNCATION)
            for number, word in enumerate((0, 0, self._PORT_VALID | port, 0, 0)):
                written.append(register(self._BASE + self._DESTINATION_WORDS + 4 * number, word))
            written.append(register(self._BASE + self._DESTINATIONS + 4 * session, 0))
            control = self._ENABLED | length << 4
        for number in range(self._SLICES):
            at = self._BASE + self._SLICE + self._SLICE_BYTES * number
            written.append(register(at + 4 * session, control))
        return b"".join(written)
