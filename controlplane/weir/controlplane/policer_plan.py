# SPDX-License-Identifier: Apache-2.0
"""A policer on a target: its meter cells, and its buckets as configured, as written and as implemented."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weir.controlplane.config import PolicerConfig
from weir.controlplane.entities import MeterCell
from weir.controlplane.errors import UnsupportedByTargetError
from weir.controlplane.targets import Effective, Target
from weir.controlplane.units import Burst, format_rate, format_size

METER = "policer"
WARN_ABOVE = 0.01
"""Relative deviation of an effective rate or burst above which the note is a warning."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One token bucket: as configured, as written over P4Runtime, and as the target implements it."""

    rate_bps: int
    burst_bytes: int
    rate_bytes_per_s: int
    effective: Effective

    @property
    def rate_error(self) -> float:
        """(effective - configured) / configured."""
        return self.effective.rate_bps / self.rate_bps - 1

    @property
    def burst_error(self) -> float:
        """(effective - configured) / configured."""
        return self.effective.burst_bytes / self.burst_bytes - 1


@dataclass(frozen=True, slots=True)
class PolicerPlan:
    """A policer's cells and buckets on the switch, with its configuration."""

    name: str
    index: int
    config: PolicerConfig
    committed: Bucket
    peak: Bucket | None
    excess: Bucket | None

    @property
    def cells(self) -> int:
        """Number of its cells, a power of two, from ``index``: hashed ones, then those of learned flows."""
        return self.config.meter_cells

    @property
    def learned_cells(self) -> range:
        """The cells for learned flows."""
        first = self.index + self.config.hash_cells
        return range(first, first + (self.config.flows or 0))

    @property
    def rate_bps(self) -> int:
        """Committed rate, as configured."""
        return self.committed.rate_bps

    @property
    def burst_bytes(self) -> int:
        """Committed burst, as configured."""
        return self.committed.burst_bytes

    @property
    def rate_bytes_per_s(self) -> int:
        """Committed rate, as written over P4Runtime."""
        return self.committed.rate_bytes_per_s

    @property
    def effective_rate_bps(self) -> float:
        """Committed rate, as the target implements it."""
        return self.committed.effective.rate_bps

    @property
    def effective_burst_bytes(self) -> int:
        """Committed burst, as the target implements it."""
        return self.committed.effective.burst_bytes

    def meter_cell(self, cell: int) -> MeterCell:
        """The configuration of one of its cells."""
        peak, excess = self.peak, self.excess
        return MeterCell(
            METER,
            cell,
            self.rate_bytes_per_s,
            self.burst_bytes,
            None if peak is None else peak.rate_bytes_per_s,
            None if peak is None else peak.burst_bytes,
            0 if excess is None else excess.burst_bytes,
        )

    def buckets(self) -> Iterator[tuple[str, Bucket]]:
        """Its buckets, each after its prefix for messages; that of the committed bucket is empty."""
        yield "", self.committed
        if self.peak is not None:
            yield "peak ", self.peak
        if self.excess is not None:
            yield "excess ", self.excess

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for each rounded value; a deviation above 1 % begins with "warning"."""
        return tuple(note for word, bucket in self.buckets() for note in _notes(self.name, word, bucket))

    def as_dict(self) -> dict[str, Any]:
        """Its buckets in the form of a manifest or of JSON output."""
        described: dict[str, Any] = {
            "name": self.name,
            "index": self.index,
            "cells": self.cells,
            "rate_bps": self.rate_bps,
            "burst_bytes": self.burst_bytes,
            "effective_rate_bps": self.effective_rate_bps,
            "effective_burst_bytes": self.effective_burst_bytes,
            "mode": self.config.mode,
            "meter": self.config.meter,
        }
        if self.config.colour_aware:
            described["colour_aware"] = True
        if self.peak is not None:
            described["peak_rate_bps"] = self.peak.rate_bps
            described["peak_burst_bytes"] = self.peak.burst_bytes
            described["effective_peak_rate_bps"] = self.peak.effective.rate_bps
            described["effective_peak_burst_bytes"] = self.peak.effective.burst_bytes
        if self.excess is not None:
            described["excess_burst_bytes"] = self.excess.burst_bytes
            described["effective_excess_burst_bytes"] = self.excess.effective.burst_bytes
        return described


def plan_policer(config: PolicerConfig, base: int, target: Target) -> PolicerPlan:
    """Compute the buckets of a policer whose cells begin at ``base``.

    Raises:
        UnsupportedByTargetError: the target cannot implement a rate or burst; the text names the policer.
    """
    try:
        committed = _bucket(config.rate, config.burst, target)
        peak = excess = None
        if config.peak_rate is not None and config.peak_burst is not None:
            peak = _bucket(config.peak_rate, config.peak_burst, target)
        if config.excess_burst is not None:
            excess = _bucket(config.rate, config.excess_burst, target)
    except UnsupportedByTargetError as error:
        raise UnsupportedByTargetError(f"policer {config.name}: {error}") from error
    return PolicerPlan(config.name, base, config, committed, peak, excess)


def _bucket(rate_bps: int, burst: Burst, target: Target) -> Bucket:
    rate_bytes_per_s, burst_bytes = (rate_bps + 4) // 8, burst.bytes_at(rate_bps)
    effective = target.effective(rate_bytes_per_s, burst_bytes)
    return Bucket(rate_bps, burst_bytes, rate_bytes_per_s, effective)


def _notes(name: str, word: str, bucket: Bucket) -> Iterator[str]:
    written_bps = bucket.rate_bytes_per_s * 8
    if written_bps != bucket.rate_bps:
        yield (
            f"policer {name}: {word}{format_rate(bucket.rate_bps)} is set as {format_rate(written_bps)}: "
            "a meter has whole bytes per second"
        )
    if round(bucket.effective.rate_bps) != written_bps:
        effective = format_rate(round(bucket.effective.rate_bps))
        yield _deviation(
            f"policer {name}: the switch polices at {word}{effective}, its nearest rate", bucket.rate_error
        )
    if bucket.effective.burst_bytes != bucket.burst_bytes:
        effective = format_size(bucket.effective.burst_bytes)
        yield _deviation(
            f"policer {name}: the switch gives a {word}burst of {effective}, its nearest burst",
            bucket.burst_error,
        )


def _deviation(text: str, error: float) -> str:
    return f"{'warning: ' if abs(error) > WARN_ABOVE else ''}{text} ({error:+.2%})"
