# SPDX-License-Identifier: Apache-2.0
"""Tofino's meters as its driver encodes them: mantissa and exponent for rate and burst.

From the published driver (p4lang/open-p4studio, pipe_mgr_meter_drv_workflows.c and dvm.c) and from Stratum
(bf_sde_wrapper.cc):

- P4Runtime's bytes/s and bytes are converted to kbit/s and kbit (bytes / 125, truncated).
- A burst is mantissa x 2^exponent bytes, with a mantissa of 8 bits, truncated.
- A rate is mantissa / 2^exponent bytes per clock cycle, with a mantissa of 9 bits, truncated; exponent +
  (burst exponent - 14, if positive) is at most 27; the mantissa is added at once: at most the burst.
- The driver computes rates in single precision.
- Reads return kbit, rounded up; Stratum converts them to bytes (x 125).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from weir.controlplane.errors import UnsupportedByTargetError
from weir.controlplane.targets.target import Capabilities, Effective
from weir.controlplane.units import format_rate, format_size

KBIT_BYTES = 125
MANTISSA_MAX = 511
EXPONENT_MAX = 27
BURST_MANTISSA_MAX = 255
BURST_EXPONENT_MAX = 31
_FREE_BURST_EXPONENT = 14
"""Largest burst exponent that does not reduce the range of the rate exponent."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A bucket as the hardware encodes it; all zero is a bucket that passes nothing."""

    rate_mantissa: int
    rate_exponent: int
    burst_mantissa: int
    burst_exponent: int

    @property
    def burst_bytes(self) -> int:
        """The depth of the bucket."""
        return self.burst_mantissa << self.burst_exponent

    def rate_bytes_per_s(self, clock_hz: int) -> float:
        """The rate at which it fills."""
        return self.rate_mantissa * clock_hz / (1 << self.rate_exponent)


_CAPABILITIES = Capabilities(
    port_rate=True,
    port_queue_bytes=True,
    port_queue_packets=False,
    port_delay=False,
    queue_drops_reported=True,
    links_service=False,
    atomic_writes=False,
    keeps_replicas=False,
    meters=frozenset({"sr2c", "tr3c"}),
    colour_aware=True,
    mirror_header_bytes=32,
    mirror_multiple_bytes=1,
    ports_per_pipe=128,
    lengths=frozenset({"frame"}),
)


@dataclass(frozen=True, slots=True)
class Tofino:
    """A Tofino under its driver; ``clock_hz`` is that of the meters, ``other_clocks_hz`` that of slower parts
    and of the chip's model.
    """

    name: str
    clock_hz: int
    other_clocks_hz: tuple[int, ...] = ()
    capabilities: Capabilities = _CAPABILITIES

    def encode(self, rate_bytes_per_s: int, burst_bytes: int) -> Encoded:
        """The bucket as driver and Stratum encode it.

        Raises:
            UnsupportedByTargetError: the driver would refuse it.
        """
        rate_kbps, burst_kbit = rate_bytes_per_s // KBIT_BYTES, burst_bytes // KBIT_BYTES
        if rate_kbps == 0 or burst_kbit == 0:
            raise UnsupportedByTargetError(
                f"{self.name} has no bucket of {format_rate(rate_bytes_per_s * 8)} and "
                f"{format_size(burst_bytes)}; valid: at least 1 kbit/s and 125 B"
            )
        return self._encode(rate_bytes_per_s, burst_bytes, rate_kbps * KBIT_BYTES, burst_kbit * KBIT_BYTES)

    def encode_bytes(self, rate_bytes_per_s: int, burst_bytes: int) -> Encoded:
        """The bucket of the hardware itself, without the driver's kbit. Raises as :meth:`encode`."""
        return self._encode(rate_bytes_per_s, burst_bytes, rate_bytes_per_s, burst_bytes)

    def _encode(
        self, rate_bytes_per_s: int, burst_bytes: int, taken_bytes_per_s: int, taken_bytes: int
    ) -> Encoded:
        """The bucket of what the driver takes of a rate and a burst."""
        burst_mantissa, burst_exponent = _burst(taken_bytes)
        if burst_exponent > BURST_EXPONENT_MAX:
            raise UnsupportedByTargetError(
                f"{self.name} has no burst of {format_size(burst_bytes)}; "
                f"valid: at most {format_size(BURST_MANTISSA_MAX << BURST_EXPONENT_MAX)}"
            )
        burst = burst_mantissa << burst_exponent
        largest_exponent = _largest_exponent(burst_exponent)
        per_cycle = _single(_single(float(taken_bytes_per_s)) / _single(float(self.clock_hz)))
        exponent, scaled = 0, per_cycle
        while scaled * 2 <= MANTISSA_MAX and exponent < largest_exponent and scaled * 2 <= burst:
            exponent, scaled = exponent + 1, scaled * 2
        mantissa = int(scaled)
        if mantissa > MANTISSA_MAX:
            fastest = MANTISSA_MAX * self.clock_hz * 8
            raise UnsupportedByTargetError(
                f"{self.name} has no rate of {format_rate(rate_bytes_per_s * 8)}; valid: at most "
                f"{format_rate(fastest)}"
            )
        if mantissa == 0:
            slowest = -(-self.clock_hz // 2**largest_exponent) * 8
            raise UnsupportedByTargetError(
                f"{self.name} has no rate of {format_rate(rate_bytes_per_s * 8)} with a burst of "
                f"{format_size(burst_bytes)}; valid: at least {format_rate(slowest)}, or a smaller burst"
            )
        if mantissa > burst:
            raise UnsupportedByTargetError(
                f"{self.name} adds {mantissa} B at a time at {format_rate(rate_bytes_per_s * 8)}, more than "
                f"a burst of {format_size(burst_bytes)}; valid: a burst of at least {mantissa} B"
            )
        return Encoded(mantissa, exponent, burst_mantissa, burst_exponent)

    def slowest(self, burst_bytes: int) -> Encoded:
        """The bucket of a burst that fills most slowly."""
        burst_mantissa, burst_exponent = _burst(burst_bytes)
        return Encoded(1, _largest_exponent(burst_exponent), burst_mantissa, burst_exponent)

    def effective(self, rate_bytes_per_s: int, burst_bytes: int) -> Effective:
        """The bucket that the hardware implements. Raises as :meth:`encode`."""
        encoded = self.encode(rate_bytes_per_s, burst_bytes)
        return Effective(encoded.rate_bytes_per_s(self.clock_hz) * 8, encoded.burst_bytes)

    def read_back(self, rate_bytes_per_s: int, burst_bytes: int) -> tuple[int, int]:
        """The values that the driver decodes, in kbit rounded up, as Stratum returns them.

        Raises as :meth:`encode`.
        """
        encoded = self.encode(rate_bytes_per_s, burst_bytes)
        per_cycle = _single(encoded.rate_mantissa / (1 << encoded.rate_exponent))
        rate_bytes = int(_single(per_cycle * _single(float(self.clock_hz))))
        rate_kbps = (rate_bytes * 8 + 999) // 1000
        burst_kbit = (encoded.burst_bytes * 8 + 999) // 1000
        return rate_kbps * KBIT_BYTES, burst_kbit * KBIT_BYTES

    def variants(self) -> tuple[Tofino, ...]:
        """One for each clock; no table of the switch says which it has."""
        others = (replace(self, clock_hz=clock_hz, other_clocks_hz=()) for clock_hz in self.other_clocks_hz)
        return (self, *others)


def _burst(burst_bytes: int) -> tuple[int, int]:
    exponent = max(0, burst_bytes.bit_length() - 8)
    return burst_bytes >> exponent, exponent


def _largest_exponent(burst_exponent: int) -> int:
    """The largest exponent of a rate beside that of a burst."""
    return EXPONENT_MAX - max(0, burst_exponent - _FREE_BURST_EXPONENT)


def _single(value: float) -> float:
    """The nearest single-precision number."""
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    return float(rounded)


# Meters of Tofino 1 run at the core clock, those of Tofino 2 at 1 GHz (pipe_mgr_rmt_cfg.c). Parts of Tofino 1
# are fused to 1.1 or 1 GHz (lld_sku.c); for its model the driver takes 1.271 GHz.
TOFINO = Tofino("tofino", 1_220_000_000, (1_271_000_000, 1_100_000_000, 1_000_000_000))
# Tofino 2 truncates mirrored packets to a multiple of four bytes, as its driver warns.
TOFINO2 = Tofino("tofino2", 1_000_000_000, capabilities=replace(_CAPABILITIES, mirror_multiple_bytes=4))
