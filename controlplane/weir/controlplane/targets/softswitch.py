# SPDX-License-Identifier: Apache-2.0
"""The embedded switch, weir-switch: integer token buckets, so rate and burst are exactly as written."""

from __future__ import annotations

from dataclasses import dataclass

from weir.controlplane.targets.target import METERS, Capabilities, Effective

_CAPABILITIES = Capabilities(
    port_rate=True,
    port_queue_bytes=True,
    port_queue_packets=True,
    port_delay=True,
    queue_drops_reported=True,
    links_service=True,
    atomic_writes=True,
    keeps_replicas=False,
    meters=METERS,
    colour_aware=False,
    mirror_header_bytes=0,
    mirror_multiple_bytes=1,
    ports_per_pipe=0,
    lengths=frozenset({"frame"}),
)


@dataclass(frozen=True, slots=True)
class Softswitch:
    """The embedded switch."""

    name: str = "softswitch"
    capabilities: Capabilities = _CAPABILITIES

    def effective(self, rate_bytes_per_s: int, burst_bytes: int) -> Effective:
        """The written bucket, unchanged."""
        return Effective(rate_bytes_per_s * 8, burst_bytes)

    def read_back(self, rate_bytes_per_s: int, burst_bytes: int) -> tuple[int, int]:
        """The written bucket, unchanged."""
        return rate_bytes_per_s, burst_bytes

    def variants(self) -> tuple[Softswitch, ...]:
        """Only this."""
        return (self,)
