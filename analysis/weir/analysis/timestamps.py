# SPDX-License-Identifier: Apache-2.0
"""Jitter, an RTT and clock drift from TCP timestamps (RFC 7323), where a capture has no RTTs of the path.

TSval counts the ticks of the host that sent the segment, from an unknown beginning, usually of 1 ms. So the
time of capture less TSval is the delay from that host to the capture, up to a constant and to one tick.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import theilslopes

from weir.analysis.jitter import jitter_of
from weir.analysis.segments import segment_tables
from weir.analysis.tables import FlowKey, Ints
from weir.analysis.traces import unwrapped

WINDOW_NS = 500_000_000
"""Each gives the packet with the least delay, which queues delayed least."""
LEAST_WINDOWS = 10
MOST_WINDOWS = 1000
"""The slope of all pairs of windows is taken, so memory grows with their square."""
LARGEST_DRIFT = 1e-3
"""Clocks of hosts differ by less (20 to 100 ppm); beyond it they are no clocks of the same ticks."""


@dataclass(frozen=True)
class Timestamps:
    """The timestamps options of one direction of a connection in order of capture, arrays of one length.

    `tsval` and `tsecr` are unwrapped, each from its first value.
    """

    time_ns: Ints
    tsval: Ints
    tsecr: Ints

    def __len__(self) -> int:
        """The number of segments with timestamps."""
        return len(self.time_ns)

    def echoed(self) -> Timestamps:
        """The timestamps of the other end as they come back, each when it is echoed first.

        A later ACK may echo an old one: while there is a hole, receivers echo what came before it (RFC 7323
        section 4.3).
        """
        first = np.unique(np.maximum.accumulate(self.tsecr), return_index=True)[1]
        return Timestamps(self.time_ns[first], self.tsecr[first], self.tsval[first])

    @classmethod
    def none(cls) -> Timestamps:
        """Those of a direction without any."""
        return cls(*(np.empty(0, dtype=np.int64) for _ in range(3)))


@dataclass(frozen=True)
class Tick:
    """The length of a TSval tick on the capture's clock, and the half width of its 95 % interval, ns."""

    ns: float
    error_ns: float


def timestamps_of(path: Path, keys: Collection[FlowKey]) -> dict[FlowKey, Timestamps]:
    """Read the timestamps of these directed flows; one without any has none here.

    A file that ends inside a record is read up to it: who has read its traces has been warned.

    Raises `weir_core.CaptureError`.
    """
    if not keys:
        return {}
    parts: dict[FlowKey, list[pa.Table]] = {key: [] for key in keys}
    for table in segment_tables(path, may_be_cut=True):
        stamped = table.filter(pc.and_(pc.is_valid(table["tsval"]), pc.invert(table["syn"])))
        for key, found in parts.items():
            src, dst, src_port, dst_port, _ = key
            of_flow = pc.and_(
                pc.and_(pc.equal(stamped["src_port"], src_port), pc.equal(stamped["dst_port"], dst_port)),
                pc.and_(pc.equal(stamped["src"], src), pc.equal(stamped["dst"], dst)),
            )
            found.append(stamped.filter(of_flow).select(["time_ns", "tsval", "tsecr"]))
    whole = {key: pa.concat_tables(found) for key, found in parts.items() if found}
    return {key: _of(table) for key, table in whole.items() if table.num_rows}


def _of(table: pa.Table) -> Timestamps:
    time_ns, tsval, tsecr = (
        np.asarray(table[name].to_numpy(), dtype=np.int64) for name in table.column_names
    )
    order = np.argsort(time_ns, kind="stable")
    return Timestamps(time_ns[order], unwrapped(tsval[order]), unwrapped(tsecr[order]))


def tick_of(stamps: Timestamps) -> Tick | None:
    """The length of a tick, from the least delays of 500 ms each (Theil and Sen); None from less than 5 s."""
    if not len(stamps) or stamps.tsval[-1] <= stamps.tsval[0]:
        return None
    rough_ns = (stamps.time_ns[-1] - stamps.time_ns[0]) / (stamps.tsval[-1] - stamps.tsval[0])
    at_ns = (stamps.time_ns - stamps.time_ns[0]).astype(np.float64)
    delay_ns = at_ns - rough_ns * (stamps.tsval - stamps.tsval[0])
    window = at_ns // WINDOW_NS
    first = np.flatnonzero(np.diff(window, prepend=-1))
    if len(first) < LEAST_WINDOWS:
        return None
    least = [part[0] + int(np.argmin(delay_ns[part])) for part in np.split(np.arange(len(at_ns)), first[1:])]
    least = least[:: -(-len(least) // MOST_WINDOWS)]
    slope, _, low, high = theilslopes(delay_ns[least], at_ns[least])
    # delay = at - rough * tsval grows by `slope` per ns, so a tick takes rough / (1 - slope).
    return Tick(float(rough_ns / (1 - slope)), float(rough_ns * (high - low) / 2))


def delay_jitter_ns(stamps: Timestamps) -> int | None:
    """How much the delay from the sender varies: as `jitter_of`, of time less TSval; None without a tick.

    An upper bound: the tick itself adds a quarter of its length.
    """
    tick = tick_of(stamps)
    if tick is None:
        return None
    delay_ns = (stamps.time_ns - stamps.time_ns[0]) - np.rint(tick.ns * (stamps.tsval - stamps.tsval[0]))
    return jitter_of(stamps.time_ns, delay_ns.astype(np.int64))


def min_rtt_ns(data: Timestamps, acks: Timestamps) -> int | None:
    """The smallest RTT between a capture and the sender: from the first ACK with a TSval to its first echo.

    At most a tick too large. None if no TSval of `acks` was echoed.
    """
    value, sent = np.unique(acks.tsval, return_index=True)
    echo, seen = np.unique(data.tsecr, return_index=True)
    # Both were unwrapped from different beginnings.
    _, in_value, in_echo = np.intersect1d(value % 2**32, echo % 2**32, return_indices=True)
    rtts = data.time_ns[seen[in_echo]] - acks.time_ns[sent[in_value]]
    return int(rtts[rtts > 0].min()) if np.any(rtts > 0) else None


def drift_of(first: Timestamps, second: Timestamps) -> float | None:
    """By how much the second capture's clock runs faster than the first's; `first` and `second`: of one host.

    0 if the difference is within its error; None if the timestamps do not show it.
    """
    one, other = tick_of(first), tick_of(second)
    if one is None or other is None:
        return None
    drift = other.ns / one.ns - 1
    if abs(drift) > LARGEST_DRIFT:
        return None
    return drift if abs(drift) > np.hypot(one.error_ns, other.error_ns) / one.ns else 0.0
