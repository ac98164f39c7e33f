# SPDX-License-Identifier: Apache-2.0
"""The packets of a run as one Arrow table: as sent, as dropped by the switch, as inferred by the sender."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from weir.analysis.run_data import Directed, RunData
from weir.analysis.tables import Bools

_LABEL = pa.dictionary(pa.int32(), pa.string())
PACKETS = pa.schema(
    [
        ("flow", _LABEL),
        ("kind", _LABEL),
        ("phase", _LABEL),
        ("sent_ns", pa.int64()),
        ("received_ns", pa.int64()),
        ("ingress_ns", pa.int64()),
        ("wire_length", pa.int64()),
        ("payload_length", pa.int64()),
        ("seq", pa.int64()),
        ("retransmission", pa.bool_()),
        ("dropped", pa.bool_()),
        ("policer", pa.int64()),
        ("colour", pa.int64()),
        ("packet_number", pa.int64()),
        ("judged", pa.bool_()),
        ("inferred_lost", pa.bool_()),
        ("inferred_at_ns", pa.int64()),
        ("cause", pa.string()),
    ]
)
RTTS = pa.schema([("flow", _LABEL), ("phase", _LABEL), ("time_ns", pa.int64()), ("rtt_ns", pa.int64())])
_ALWAYS = ("sent_ns", "wire_length", "payload_length", "seq")
_FLAGS = ("retransmission", "dropped", "judged", "inferred_lost")


def packets_table(data: RunData) -> Any:
    """One row per IP packet sent (PACKETS), by flow, each in order of sending.

    Times are on the run's clock, but `ingress_ns` is on the switch's; lengths are in bytes. Null: not
    received; not reported by the switch; not inferred lost.
    """
    blocks = [_packets_of(flow) for flow in data.flows]
    return pa.concat_tables(blocks).unify_dictionaries() if blocks else PACKETS.empty_table()


def rtts_table(data: RunData) -> Any:
    """One row per RTT sample (RTTS); `time_ns` is that of the ACK, on the run's clock."""
    blocks = []
    for flow in data.flows:
        labels = _labels(flow, len(flow.rtts.rtt_ns))
        columns = {
            **{name: labels[name] for name in ("flow", "phase")},
            "time_ns": flow.rtts.time_ns,
            "rtt_ns": flow.rtts.rtt_ns,
        }
        blocks.append(pa.table(columns, schema=RTTS))
    return pa.concat_tables(blocks).unify_dictionaries() if blocks else RTTS.empty_table()


def _packets_of(flow: Directed) -> Any:
    packets = flow.packets

    def where(known: Bools, *names: str) -> dict[str, Any]:
        return {name: pa.array(getattr(packets, name), mask=~known) for name in names}

    columns = {
        **_labels(flow, len(packets)),
        **{name: getattr(packets, name) for name in (*_ALWAYS, *_FLAGS)},
        **where(packets.received, "received_ns"),
        **where(packets.dropped, "ingress_ns", "policer", "colour", "packet_number"),
        **where(packets.inferred_lost, "inferred_at_ns", "cause"),
    }
    return pa.table({name: columns[name] for name in PACKETS.names}, schema=PACKETS)


def _labels(flow: Directed, rows: int) -> dict[str, Any]:
    """Name, kind and phase of a flow, repeated."""
    texts = {"flow": flow.label, "kind": flow.kind, "phase": flow.phase.name if flow.phase else None}
    return {
        name: pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(rows, dtype=np.int32), mask=np.full(rows, text is None)),
            pa.array([text or ""], pa.string()),
        )
        for name, text in texts.items()
    }
