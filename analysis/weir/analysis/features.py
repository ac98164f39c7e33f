# SPDX-License-Identifier: Apache-2.0
"""Features for a classifier of bottleneck buffers: five values per sample of a BBR flow.

I. U. Akgun et al., "Predicting Network Buffer Capacity for BBR Fairness", section 2.2. Their samples come
from a tracepoint at every ACK; ours are the socket's state every tenth of a second, so the time between two
ACKs is the mean over a sample's interval, and TCP's RTT is the smoothed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from weir.analysis.tables import Floats, Ints, read_parquet
from weir.rundir.directory import RunDirectory

SCHEMA = pa.schema(
    [
        pa.field("flow", pa.string(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("ack_interval_us", pa.float64(), nullable=False),
        pa.field("bbr_min_rtt_us", pa.float64(), nullable=False),
        pa.field("packets_in_flight", pa.int64(), nullable=False),
        pa.field("bbr_bandwidth_bps", pa.float64(), nullable=False),
        pa.field("tcp_rtt_us", pa.float64(), nullable=False),
    ]
)
NAMES = tuple(SCHEMA.names[2:])
"""The five features."""
_NEEDED = ("bbr_bandwidth_bps", "bbr_min_rtt_ns", "rtt_ns")
Key = tuple[str, str, int, int]
"""Source, destination and their ports."""


def features(sockets: Any, flows: Mapping[Key, str]) -> Any:
    """The table of features (SCHEMA) from socket samples; `flows` maps connections to flow names.

    Samples without new ACKs since the previous one, or before BBR has estimates, are left out.
    """
    if not set(_NEEDED) <= set(sockets.column_names):
        return SCHEMA.empty_table()
    known = sockets.filter(pa.compute.is_valid(sockets["bbr_bandwidth_bps"]))
    columns = {name: known[name].to_numpy(zero_copy_only=False) for name in known.column_names}
    keys = list(
        zip(*(columns[name].tolist() for name in ("src", "dst", "src_port", "dst_port")), strict=True)
    )
    blocks = [SCHEMA.empty_table()]
    for key in dict.fromkeys(keys):
        if key not in flows:
            continue
        at = np.array([other == key for other in keys])
        blocks.append(_of_flow(flows[key], {name: values[at] for name, values in columns.items()}))
    return pa.concat_tables(blocks)


def _of_flow(flow: str, columns: Mapping[str, Any]) -> Any:
    time_ns, values = feature_values(columns)
    table = {"flow": [flow] * len(time_ns), "time_ns": time_ns}
    for name, column in zip(NAMES, values.T, strict=True):
        table[name] = column.astype(np.int64) if name == "packets_in_flight" else column
    return pa.table(table, schema=SCHEMA)


def feature_values(columns: Mapping[str, Any]) -> tuple[Ints, Floats]:
    """Times (n, ns) and features (n × 5, as `NAMES`) of one flow's samples, columns in order of time.

    The first sample has none, as the time between ACKs is that since the sample before.
    """
    time_ns = columns["time_ns"].astype(np.int64)
    acks = np.diff(columns["segments_received"].astype(np.int64))
    rows = {name: columns[name][1:].astype(np.float64) for name in _NEEDED}
    whole = (acks > 0) & np.all([np.isfinite(values) for values in rows.values()], axis=0)
    values = (
        np.diff(time_ns)[whole] / 1e3 / acks[whole],
        rows["bbr_min_rtt_ns"][whole] / 1e3,
        columns["in_flight"][1:][whole].astype(np.float64),
        rows["bbr_bandwidth_bps"][whole],
        rows["rtt_ns"][whole] / 1e3,
    )
    return time_ns[1:][whole], np.column_stack(values)


def features_of_run(run_dir: Path, flows: Mapping[Key, str]) -> Any:
    """The features of a run; empty where it has no samples of BBR flows."""
    path = RunDirectory(run_dir).sockets
    return features(read_parquet(path), flows) if path.is_file() else SCHEMA.empty_table()
