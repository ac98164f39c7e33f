# SPDX-License-Identifier: Apache-2.0
"""Traces of flows whose data took another path than the capture, from their ACKs.

An ACK tells which bytes the receiver has, with SACK (RFC 2018) also those behind a hole. So the first ACK for
some bytes stands for their arrival, and the ACKs show holes as a capture at the receiver does, one way later.
A later connection on the same ports begins with the receiver's SYN; its numbers continue those before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weir.analysis.segments import with_texts
from weir.analysis.tables import FlowKey, Ints
from weir.analysis.traces import NONE, FlowTrace, as_received, gap_ns, unwrapped

HEADER_BYTES = 66
"""Ethernet, IPv4 and TCP with timestamps, as most hosts send."""
COMMON = 0.02
"""Of the ACKs: as many as this, and no segment is longer than what they acknowledge. Others cover several."""
LARGEST_STEP = 1 << 20
"""An ACK for more than 1 MiB is damaged, or the capture has a gap; that is no arrival."""
LEAST_SEGMENT = 536
"""The payload of segments without an MSS option (RFC 9293 section 3.7.1); it bounds the pieces of an ACK."""


def traces_of_acks(path: Path, handshakes: Mapping[FlowKey, int | None]) -> list[FlowTrace]:
    """The traces, in the view `acked`, of flows of which the capture has the ACKs only.

    `handshakes` has these flows, each with the time from the receiver's SYN to its next segment, ns. A flow
    is left out whose ACKs show no arrival. Raises `weir_core.CaptureError`.
    """
    import weir_core

    if not handshakes:
        return []
    found = with_texts(pa.table(weir_core.read_acknowledged(path)))
    rows = rows_by_flow(found)
    columns = [np.asarray(found[name].to_numpy(), dtype=np.int64) for name in ("time_ns", "seq", "length")]
    traces = []
    for key, handshake_ns in handshakes.items():
        mine = rows.get(key[:4], NONE)
        time_ns, seq, length = (column[mine] for column in columns)
        arrived = length <= LARGEST_STEP
        if np.any(arrived):
            traces.append(_trace(key, time_ns[arrived], seq[arrived], length[arrived], handshake_ns))
    return traces


def rows_by_flow(found: Any) -> dict[tuple[Any, ...], Ints]:
    """The rows of each flow in the order of the file, by one sort for all: a capture may have thousands."""
    ends = [
        found[name].combine_chunks().dictionary_encode() for name in ("src", "dst", "src_port", "dst_port")
    ]
    codes = np.array([end.indices.to_numpy() for end in ends], dtype=np.int64)
    order = np.lexsort(codes)
    first = np.flatnonzero(np.any(np.diff(codes[:, order], axis=1, prepend=-1), axis=0))
    values = [end.dictionary.to_pylist() for end in ends]
    keys = [
        tuple(of_end[code] for of_end, code in zip(values, flow, strict=True))
        for flow in codes[:, order[first]].T.tolist()
    ]
    # Without any row there is no flow, and one empty part.
    return dict(zip(keys, np.split(order, first[1:]), strict=False))


def _trace(key: FlowKey, time_ns: Ints, seq: Ints, length: Ints, handshake_ns: int | None) -> FlowTrace:
    segment = segment_bytes(length)
    pieces = -(-length // segment)
    first = np.repeat(np.cumsum(pieces) - pieces, pieces)
    offset = (np.arange(int(pieces.sum())) - first) * segment
    starts = np.repeat(unwrapped(seq), pieces) + offset
    sizes = np.minimum(segment, np.repeat(length, pieces) - offset)
    arrivals = FlowTrace(
        *key[:4],
        time_ns=np.repeat(time_ns, pieces),
        frame_bytes=sizes + HEADER_BYTES,
        payload_bytes=sizes,
        seq=starts - starts[0],
        lost=np.zeros(len(sizes), dtype=bool),
        rtt_sent_ns=NONE,
        rtt_ns=NONE,
        request_ns=NONE,
        from_start=False,
        handshake_ns=handshake_ns,
    )
    # The bytes of an ACK arrived at any time since the ACK before it.
    return replace(as_received(arrivals), view="acked", time_error_ns=gap_ns(np.unique(time_ns), 50))


def segment_bytes(length: Ints) -> int:
    """The payload of a full segment: the shortest common step of ACKs, as many of them cover several."""
    steps, counts = np.unique(length, return_counts=True)
    common = steps[counts >= max(COMMON * len(length), 1)]
    return max(int(common.min() if len(common) else steps[np.argmax(counts)]), LEAST_SEGMENT)
