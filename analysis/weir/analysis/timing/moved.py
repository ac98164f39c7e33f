# SPDX-License-Identifier: Apache-2.0
"""From a host's clock to the run's: pieces in the order of the records of its capture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from weir.analysis.tables import Ints

By = Literal["itself", "both directions", "one direction"]


@dataclass(frozen=True)
class Piece:
    """From `first_record` on, `source_ns` of the host's clock is `target_ns` of the run's, which drifts."""

    first_record: int
    source_ns: int
    target_ns: int
    drift: float

    def source_at(self, target_ns: int) -> int:
        """The host's time at a time of the run's clock."""
        since = target_ns - self.target_ns
        return self.source_ns + since + round(since * (1 / (1 + self.drift) - 1))

    def as_tuple(self) -> tuple[int, int, int, float]:
        """As `weir_core.join_run` takes it."""
        return self.first_record, self.source_ns, self.target_ns, self.drift


@dataclass(frozen=True)
class Step:
    """The host's clock was set by `size_ns` (forward: positive) at a time of the run's clock."""

    at_ns: int
    size_ns: int


@dataclass(frozen=True)
class HostClock:
    """A host's clock beside the run's, and how exactly it is known.

    The host's clock is ahead by `offset_ns` at its first packet and runs faster by `drift_ppm`. `error_ns`
    bounds the error of the offset (None: unknown), `from_root_ns` that of the difference from the host over
    which all are joined. `same`: no packet contradicts that it is the run's clock, so it is taken for it.
    """

    host: str
    pieces: tuple[Piece, ...]
    steps: tuple[Step, ...]
    offset_ns: int
    drift_ppm: float
    residual_ns: int
    error_ns: int | None
    from_root_ns: int | None
    by: By
    packets: int
    same: bool

    @property
    def moves(self) -> tuple[tuple[int, int, int, float], ...]:
        """The pieces for `weir_core.join_run`; none for a clock that is the run's."""
        return () if self.same else tuple(piece.as_tuple() for piece in self.pieces)


def apply(pieces: Sequence[Piece], number: Ints, stamp_ns: Ints) -> Ints:
    """The times of records on the other clock."""
    firsts = np.array([piece.first_record for piece in pieces[1:]], dtype=np.int64)
    which = np.searchsorted(firsts, number, side="right")
    sources, targets = (
        np.array([getattr(piece, name) for piece in pieces], dtype=np.int64)
        for name in ("source_ns", "target_ns")
    )
    drifts = np.array([piece.drift for piece in pieces])
    since = stamp_ns - sources[which]
    return np.asarray(
        targets[which] + since + np.rint(since * drifts[which]).astype(np.int64), dtype=np.int64
    )


def followed_by(pieces: Sequence[Piece], origin_ns: int, to_ns: int, drift: float) -> tuple[Piece, ...]:
    """Pieces to a third clock, which shows `to_ns` at `origin_ns` of the second one and drifts beside it."""
    return tuple(
        replace(
            piece,
            target_ns=to_ns + (piece.target_ns - origin_ns) + round((piece.target_ns - origin_ns) * drift),
            drift=(1 + piece.drift) * (1 + drift) - 1,
        )
        for piece in pieces
    )
