# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from weir.analysis.features import NAMES, features, features_of_run
from weir.rundir.directory import RunDirectory
from weir.rundir.errors import RunFileError

BBR, CUBIC, STRANGER = (("10.0.0.2", "10.0.0.1", port, 5201) for port in (20000, 20001, 20002))
NAMED = {BBR: "main/bbr", CUBIC: "main/cubic"}


def sample(key: tuple[str, str, int, int], tenth: int, received: int, bbr: bool = True) -> dict[str, Any]:
    return {
        **dict(zip(("src", "dst", "src_port", "dst_port"), key, strict=True)),
        "time_ns": tenth * 100_000_000,
        "segments_received": received,
        "in_flight": 40,
        "rtt_ns": 60_000_000,
        "bbr_bandwidth_bps": 50_000_000 if bbr else None,
        "bbr_min_rtt_ns": 40_000_000 if bbr else None,
    }


def test_a_sample_has_five_features_with_the_mean_time_between_acks() -> None:
    rows = [
        sample(BBR, 0, 10, bbr=False),  # no estimate yet
        sample(BBR, 1, 20),
        sample(CUBIC, 1, 20, bbr=False),
        sample(STRANGER, 1, 20),
        sample(BBR, 2, 70),
        sample(STRANGER, 2, 70),
        sample(BBR, 3, 70),  # no new ACK
        sample(BBR, 4, 71),
    ]
    found = features(pa.Table.from_pylist(rows), NAMED)
    assert found["flow"].to_pylist() == ["main/bbr"] * 2
    # 100 ms for 50 ACKs, then for one.
    assert found["ack_interval_us"].to_pylist() == [2_000.0, 100_000.0]
    assert found["bbr_min_rtt_us"].to_pylist() == [40_000.0] * 2
    assert found["packets_in_flight"].to_pylist() == [40] * 2
    assert found["bbr_bandwidth_bps"].to_pylist() == [5e7] * 2
    assert found["tcp_rtt_us"].to_pylist() == [60_000.0] * 2
    assert len(NAMES) == 5


def test_samples_of_an_older_run_or_none_give_an_empty_table(tmp_path: Path) -> None:
    old = pa.Table.from_pylist([{"src": "a", "rtt_ns": 1}])
    assert len(features(old, NAMED)) == len(features_of_run(tmp_path, NAMED)) == 0
    assert features(old, NAMED).column_names == ["flow", "time_ns", *NAMES]


def test_a_damaged_file_of_samples_is_named(tmp_path: Path) -> None:
    sockets = RunDirectory(tmp_path).sockets
    sockets.write_bytes(b"PAR1 cut")
    with pytest.raises(RunFileError, match=f"^{sockets}: .*; valid: a whole Parquet file"):
        features_of_run(tmp_path, NAMED)
