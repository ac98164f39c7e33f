# SPDX-License-Identifier: Apache-2.0
"""Decides which policer a flow meets: the first with a match that fits the flow's packets.

The control plane uses this before a run, when ports may not be known yet; the analysis uses it for every flow
in a capture.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from weir.rundir.record import Record


@dataclass(frozen=True, slots=True)
class Header:
    """The header fields that a match compares; a port is None if it is not known."""

    src: str
    dst: str
    protocol: int
    src_port: int | None = None
    dst_port: int | None = None
    dscp: int = 0
    """Value at the policer; the hosts of a run send unmarked packets."""


class Match(Record):
    """A classifier entry of a policer; a field that is None matches everything."""

    src: tuple[str, ...] | None = None
    dst: tuple[str, ...] | None = None
    protocol: int | None = None
    src_port: int | None = None
    dst_port: int | None = None
    dscp: int | None = None

    def meets(self, header: Header) -> bool:
        """Whether packets with this header match.

        Raises:
            UnknownPortError: the answer depends on a port that is not known.
        """
        if self.src is not None and header.src not in self.src:
            return False
        if self.dst is not None and header.dst not in self.dst:
            return False
        if self.protocol is not None and header.protocol != self.protocol:
            return False
        if self.dscp is not None and header.dscp != self.dscp:
            return False
        for wanted, port in ((self.src_port, header.src_port), (self.dst_port, header.dst_port)):
            if wanted is not None and port is None:
                raise UnknownPortError
            if wanted is not None and wanted != port:
                return False
        return True


class UnknownPortError(ValueError):
    """A match has a port, but the flow's port is not known."""


_Policer = TypeVar("_Policer")


def first_met(policers: Iterable[tuple[_Policer, Iterable[Match]]], header: Header) -> _Policer | None:
    """The first policer with a match that fits, or None. Raises UnknownPortError."""
    for policer, matches in policers:
        if any(match.meets(header) for match in matches):
            return policer
    return None
