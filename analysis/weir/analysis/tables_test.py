# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pyarrow as pa
import pytest

from weir.analysis.tables import packets_from_arrow
from weir_tests.analysis.packets import make_packets
from weir_tests.analysis.synthetic_run import PACKET_SCHEMA


def test_null_becomes_zero_with_a_false_flag() -> None:
    row = {
        **{"flow": 3, "sent_ns": 7, "wire_length": 60, "payload_length": 0, "retransmission": False},
        **{"judged": False, "inferred_lost": False, "dropped": False},
    }
    packets = packets_from_arrow(pa.Table.from_pylist([row, row | {"received_ns": 9}], PACKET_SCHEMA))
    assert packets.received.tolist() == [False, True]
    assert packets.received_ns.tolist() == [0, 9]
    assert packets.seq.tolist() == [0, 0]
    assert packets.cause.tolist() == [None, None]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ValueError, match="no column ingress_ns"):
        packets_from_arrow(PACKET_SCHEMA.empty_table().drop_columns(["ingress_ns"]))


def test_packets_are_split_by_flow_in_order_of_sending() -> None:
    packets = make_packets(
        sent_ns=[30, 10, 20, 5], received_ns=[1, 1, 1, 1], dropped=[False] * 4, flow=[1, 1, 0, 1]
    )
    assert [(flow, its.sent_ns.tolist()) for flow, its in packets.by_flow()] == [(0, [20]), (1, [5, 10, 30])]


def test_an_empty_table_has_no_flow() -> None:
    assert list(packets_from_arrow(PACKET_SCHEMA.empty_table()).by_flow()) == []
