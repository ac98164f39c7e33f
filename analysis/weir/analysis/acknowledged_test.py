# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from weir.analysis.acknowledged import (
    LARGEST_STEP,
    LEAST_SEGMENT,
    rows_by_flow,
    segment_bytes,
    traces_of_acks,
)
from weir.analysis.captures import traces_of
from weir_tests.analysis.tcp_capture import write_run

FLOW = ("10.0.0.2", "10.0.0.1", 40_000, 5_201, 6)


@pytest.mark.parametrize(
    ("steps", "segment"),
    [
        ([2896] * 60 + [1448] * 10, 1448),
        ([2896] * 99 + [900], 2896),
        ([100] * 50, LEAST_SEGMENT),
        ([9000], 9000),
    ],
)
def test_the_shortest_common_step_is_a_segment(steps: list[int], segment: int) -> None:
    assert segment_bytes(np.array(steps)) == segment


def test_each_flow_has_its_rows_in_the_order_of_the_file() -> None:
    flows = [("a", "b", 1, 2), ("b", "a", 1, 2), ("a", "b", 1, 3)]
    columns = zip(*(flows[number] for number in (1, 0, 2, 0, 1, 1)), strict=True)
    table = pa.table(dict(zip(("src", "dst", "src_port", "dst_port"), columns, strict=True)))
    found = {key: rows.tolist() for key, rows in rows_by_flow(table).items()}
    assert found == {flows[0]: [1, 3], flows[1]: [0, 4, 5], flows[2]: [2]}
    assert rows_by_flow(table.slice(0, 0)) == {}


def test_any_acks_give_arrivals_within_bounds(tmp_path: Path) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_run(tmp_path)
    sound = (tmp_path / "pcap" / "server.pcap").read_bytes()
    acks = tmp_path / "acks.pcap"
    rng = np.random.default_rng(1)
    for _ in range(30):
        kept, at = [sound[:24]], 24
        while at < len(sound):
            captured = struct.unpack_from("<I", sound, at + 8)[0]
            head, frame = sound[at : at + 16], bytearray(sound[at + 16 : at + 16 + captured])
            at += 16 + captured
            if frame[26:30] == bytes([10, 0, 0, 2]):
                continue
            if rng.random() < 0.2:  # acknowledgment number, flags, options
                frame[int(rng.integers(42, len(frame)))] = int(rng.integers(256))
            kept.append(head + bytes(frame))
        acks.write_bytes(b"".join(kept))
        for flow in [*traces_of_acks(acks, {FLOW: None}), *traces_of(acks).flows]:
            assert np.all(np.diff(flow.time_ns) >= 0)
            assert np.all((flow.payload_bytes >= 0) & (flow.payload_bytes <= LARGEST_STEP))
            assert 0 <= flow.complete <= 1
