# SPDX-License-Identifier: Apache-2.0
"""The interface of a target and its capabilities; an experiment that needs more fails before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

METERS = frozenset({"sr2c", "sr3c", "tr3c"})
LENGTHS = frozenset({"frame", "l1", "ip"})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The features of a target in addition to the pipeline."""

    port_rate: bool
    """Ports have a shaped egress queue whose rate is in bit/s and whose burst in bytes."""
    port_queue_bytes: bool
    """That queue can be limited in bytes."""
    port_queue_packets: bool
    """That queue can be limited in packets."""
    port_delay: bool
    """Ports delay the frames that leave through them, and drop a share at random."""
    queue_drops_reported: bool
    """Packets dropped at an egress queue are deflected and reported one by one; otherwise as a count."""
    links_service: bool
    """Its ports' links and queues are read and set through a separate gRPC service."""
    atomic_writes: bool
    """A P4Runtime batch takes effect between two packets, or not at all (DATAPLANE_ATOMIC)."""
    keeps_replicas: bool
    """Replicas of multicast groups and clone sessions outlast the loading of a program, unseen by reads."""
    meters: frozenset[str]
    """Supported meter types, of sr2c, sr3c, tr3c."""
    colour_aware: bool
    """Meters work in colour-aware mode: a packet's colour never improves (RFC 2697, RFC 2698)."""
    mirror_header_bytes: int
    """What precedes a mirrored frame: its clone session must truncate reports. 0: the program does."""
    mirror_multiple_bytes: int
    """Mirrored packets are truncated to a multiple of so many bytes."""
    ports_per_pipe: int
    """Ports that share the state of a meter; those of another pipe have their own. 0: all ports share it."""
    lengths: frozenset[str]
    """Packet lengths that a meter can count, of frame, l1, ip."""


@dataclass(frozen=True, slots=True)
class Effective:
    """A token bucket as the target implements it. The rate need not be whole bytes per second."""

    rate_bps: float
    burst_bytes: int


class Target(Protocol):
    """A kind of switch that runs the pipeline and is controlled over P4Runtime."""

    @property
    def name(self) -> str:
        """The target's name in ``switch.target``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """Its declared capabilities."""
        ...

    def effective(self, rate_bytes_per_s: int, burst_bytes: int) -> Effective:
        """The bucket that the target implements for the written rate and burst.

        Raises:
            UnsupportedByTargetError: the target cannot implement it; the message gives the limit.
        """
        ...

    def read_back(self, rate_bytes_per_s: int, burst_bytes: int) -> tuple[int, int]:
        """The rate in bytes/s and burst in bytes that a read returns after this bucket was written.

        Raises as :meth:`effective`.
        """
        ...

    def variants(self) -> tuple[Target, ...]:
        """The target, then as others of its name are: they return other values for the same bucket."""
        ...
