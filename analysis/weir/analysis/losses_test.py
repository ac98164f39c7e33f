# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pyarrow as pa

from weir.analysis.losses import CaptureLosses, capture_losses


def capture() -> CaptureLosses:
    def flow(number: int, port: int, payload: int, packets: int) -> dict[str, Any]:
        return {
            **{"flow": number, "src": "10.0.0.2", "dst": "10.0.0.1", "src_port": port, "dst_port": 5201},
            **{"protocol": 6, "packets": packets, "bytes": payload, "payload_bytes": payload, "first_ns": 0},
            **{"last_ns": 9, "min_rtt_ns": 20, "retransmissions": 1, "spurious": 0, "losses": 1},
        }

    losses = [
        {"flow": 1, "sent_ns": 30, "detected_ns": 60, "seq": 2, "length": 1448, "cause": "rto"},
        {"flow": 1, "sent_ns": 10, "detected_ns": 50, "seq": 1, "length": 1448, "cause": "fast_retransmit"},
        {"flow": 0, "sent_ns": 20, "detected_ns": 70, "seq": 9, "length": 1448, "cause": "tail"},
    ]
    flows = [flow(0, 40000, 10, 5), flow(1, 40001, 9_000, 8), flow(2, 40002, 0, 3)]
    return capture_losses("a.pcap", pa.Table.from_pylist(flows), pa.Table.from_pylist(losses), ["cut short"])


def test_losses_are_split_by_flow_and_sorted_by_sending() -> None:
    found = capture()
    assert found.flows[1].losses["sent_ns"].to_pylist() == [10, 30]
    assert found.flows[1].loss_ratio == 0.25
    assert found.flows[1].summary()["causes"] == {"fast_retransmit": 1, "rto": 1}
    assert found.flows[2].losses.num_rows == 0


def test_json_keeps_every_loss_and_warning() -> None:
    found = capture().to_json()
    assert found["warnings"] == ["cut short"]
    assert [len(flow["loss_events"]) for flow in found["flows"]] == [1, 2, 0]
    assert "loss_events" not in capture().to_json(events=False)["flows"][0]
