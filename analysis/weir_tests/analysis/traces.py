# SPDX-License-Identifier: Apache-2.0
"""Hand-made traces of single flows for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir.analysis.tables import Floats, Ints
from weir.analysis.traces import FlowTrace

RTT_NS = 20_000_000


def make_trace(
    time_ns: Sequence[int] | Ints,
    *,
    payload: Sequence[int] | Ints | None = None,
    lost: Sequence[int] | Ints = (),
    seq: Sequence[int] | Ints | None = None,
    rtt_ns: Ints | Floats | None = None,
    port: int = 40000,
    from_start: bool = True,
) -> FlowTrace:
    """A flow, by default of full-sized packets; `lost` holds indices of packets."""
    at = np.array(time_ns, dtype=np.int64)
    sizes = np.full(len(at), 1448, dtype=np.int64) if payload is None else np.array(payload, dtype=np.int64)
    is_lost = np.zeros(len(at), dtype=bool)
    is_lost[np.array(lost, dtype=np.int64)] = True
    rtts = np.full(len(at), RTT_NS, dtype=np.int64) if rtt_ns is None else np.array(rtt_ns, dtype=np.int64)
    return FlowTrace(
        src="10.0.0.2",
        dst="10.0.0.1",
        src_port=port,
        dst_port=5201,
        time_ns=at,
        frame_bytes=sizes + 66,
        payload_bytes=sizes,
        seq=np.cumsum(sizes) - sizes if seq is None else np.array(seq, dtype=np.int64),
        lost=is_lost,
        rtt_sent_ns=at[: len(rtts)],
        rtt_ns=rtts,
        request_ns=np.empty(0, dtype=np.int64),
        from_start=from_start,
    )
