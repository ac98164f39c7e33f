# SPDX-License-Identifier: Apache-2.0
"""bmv2 (simple_switch_grpc): buckets fill at a floating-point number of bytes per whole microsecond.

Tokens are counted from the meter's start, so no fraction is lost between packets: the long-term rate is the
written one, to the precision of a double. The tokens that a packet sees are truncated to whole bytes and
microseconds, an error of at most one byte plus the tokens of 1 us.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir.controlplane.errors import UnsupportedByTargetError
from weir.controlplane.targets.target import Capabilities, Effective
from weir.controlplane.units import format_size

_LARGEST_BURST = 2**32 - 1  # its P4Runtime server keeps bursts in 32 bits


_CAPABILITIES = Capabilities(
    port_rate=False,
    port_queue_bytes=False,
    port_queue_packets=True,
    port_delay=False,
    queue_drops_reported=False,
    links_service=False,
    atomic_writes=False,
    keeps_replicas=True,
    meters=frozenset({"sr2c", "tr3c"}),
    colour_aware=False,
    mirror_header_bytes=0,
    mirror_multiple_bytes=1,
    ports_per_pipe=0,
    lengths=frozenset({"frame"}),
)


@dataclass(frozen=True, slots=True)
class Bmv2:
    """The reference software switch. Its queues are limited and served in packets (`bmv2_queues.py`)."""

    name: str = "bmv2"
    capabilities: Capabilities = _CAPABILITIES

    def effective(self, rate_bytes_per_s: int, burst_bytes: int) -> Effective:
        """The rate as the nearest double of bytes per microsecond, and the exact burst.

        Raises:
            UnsupportedByTargetError: the burst does not fit 32 bits.
        """
        _check(burst_bytes)
        return Effective(rate_bytes_per_s / 1e6 * 1e6 * 8, burst_bytes)

    def read_back(self, rate_bytes_per_s: int, burst_bytes: int) -> tuple[int, int]:
        """The rate after conversion to bytes per microsecond and back, which loses at most 1 byte/s."""
        _check(burst_bytes)
        return int(rate_bytes_per_s / 1e6 * 1e6), burst_bytes

    def variants(self) -> tuple[Bmv2, ...]:
        """Only this."""
        return (self,)


def _check(burst_bytes: int) -> None:
    if burst_bytes > _LARGEST_BURST:
        raise UnsupportedByTargetError(
            f"bmv2 has no burst of {format_size(burst_bytes)}; valid: at most {format_size(_LARGEST_BURST)}"
        )
