# SPDX-License-Identifier: Apache-2.0
"""Small hand-made tables for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir.analysis.tables import Ints, Packets


def make_packets(
    *,
    sent_ns: Sequence[int],
    received_ns: Sequence[int | None],
    dropped: Sequence[bool],
    inferred_at_ns: Sequence[int | None] | None = None,
    payload_length: Sequence[int] | None = None,
    seq: Sequence[int] | None = None,
    cause: Sequence[str | None] | None = None,
    retransmission: Sequence[bool] | None = None,
    ingress_ns: Sequence[int] | None = None,
    flow: Sequence[int] | None = None,
    syn: Sequence[int] = (),
) -> Packets:
    """Packets with the given columns; other columns are those of full-sized packets of one flow.

    `syn` holds indices of packets.
    """
    n = len(sent_ns)
    inferred = [None] * n if inferred_at_ns is None else list(inferred_at_ns)
    payload = _ints([1448] * n if payload_length is None else payload_length)
    return Packets(
        flow=_ints([0] * n if flow is None else flow),
        sent_ns=_ints(sent_ns),
        wire_length=payload + 66,
        payload_length=payload,
        seq=_ints(np.cumsum(payload) - payload if seq is None else seq),
        retransmission=np.array([False] * n if retransmission is None else retransmission, dtype=bool),
        judged=payload > 0,
        inferred_lost=np.array([at is not None for at in inferred], dtype=bool),
        inferred_at_ns=_ints([at or 0 for at in inferred]),
        cause=np.array([None] * n if cause is None else list(cause), dtype=object),
        received=np.array([at is not None for at in received_ns], dtype=bool),
        received_ns=_ints([at or 0 for at in received_ns]),
        dropped=np.array(dropped, dtype=bool),
        ingress_ns=_ints(sent_ns if ingress_ns is None else ingress_ns),
        passed_ns=_ints([0] * n),
        policer=_ints([0] * n),
        colour=_ints([2 if drop else 0 for drop in dropped]),
        packet_number=_ints(range(1, n + 1)),
        syn=np.isin(np.arange(n), np.array(syn, dtype=np.int64)),
        copy=np.zeros(n, dtype=bool),
    )


def _ints(values: Sequence[int] | Ints | range) -> Ints:
    return np.array(values, dtype=np.int64)
