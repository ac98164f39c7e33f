# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from weir.analysis.losses import CaptureLosses, capture_losses, counts_of, losses_of
from weir_tests.analysis.tcp_capture import Host, Transfer


def capture() -> CaptureLosses:
    def flow(number: int, port: int, payload: int, packets: int, before: int = 0) -> dict[str, Any]:
        return {
            **{"flow": number, "src": "10.0.0.2", "dst": "10.0.0.1", "src_port": port, "dst_port": 5201},
            **{"protocol": 6, "packets": packets, "bytes": payload, "payload_bytes": payload, "first_ns": 0},
            **{"last_ns": 9, "min_rtt_ns": 20, "retransmissions": 1, "spurious": 0, "losses": 1},
            **{"losses_before": before, "copies": 0},
        }

    def loss(flow: int, sent_ns: int, cause: str, place: str = "behind") -> dict[str, Any]:
        times = {"sent_ns": sent_ns, "detected_ns": sent_ns + 40, "seq": sent_ns, "length": 1448}
        return {"flow": flow, **times, "cause": cause, "place": place, "confidence": "high"}

    losses = [
        loss(1, 30, "rto", "before"),
        loss(1, 10, "fast_retransmit"),
        loss(0, 20, "tail"),
    ]
    flows = [flow(0, 40000, 10, 5), flow(1, 40001, 9_000, 7, before=1), flow(2, 40002, 0, 3)]
    rates = [{"flow": flow, "rate_bps": rate} for flow, rate in ((1, 3e6), (0, 5e6), (1, 1e6), (1, 2e6))]
    tables = (pa.Table.from_pylist(rows) for rows in (flows, losses, rates))
    return capture_losses("a.pcap", *tables, ["cut short"])


def test_losses_are_split_by_flow_and_sorted_by_sending() -> None:
    found = capture()
    assert found.flows[1].losses["sent_ns"].to_pylist() == [10, 30]
    assert found.flows[1].loss_ratio == 0.25
    assert found.flows[1].summary()["causes"] == {"fast_retransmit": 1, "rto": 1}
    assert found.flows[2].losses.num_rows == 0


def test_losses_before_the_capture_are_counted_apart_and_belong_to_the_ratio() -> None:
    summary = capture().flows[1].summary()
    assert (summary["losses"], summary["losses_before"]) == (1, 1)
    assert summary["loss_ratio"] == 2 / 8


def test_the_second_copies_of_packets_are_none_that_were_sent() -> None:
    flow = replace(capture().flows[1], copies=3)
    assert flow.summary()["copies"] == 3
    assert flow.loss_ratio == 2 / (7 - 3 + 1)


def test_nothing_is_inferred_from_a_flow_without_tcp() -> None:
    flow = replace(capture().flows[2], protocol=17)
    inferred = ("losses", "losses_before", "loss_ratio", "retransmissions", "spurious")
    assert [flow.summary()[name] for name in inferred] == [None] * 5
    assert flow.summary()["packets"] == 3


def test_delivery_rates_are_split_by_flow_and_summed_up() -> None:
    found = capture()
    assert found.flows[0].delivery_rates_bps.tolist() == [5e6]
    assert found.flows[1].delivery_rates_bps.tolist() == [3e6, 1e6, 2e6]
    summary = found.flows[1].summary()["delivery_rate_bps"]
    assert summary == {"p10": pytest.approx(1.2e6), "median": 2e6, "p90": pytest.approx(2.8e6)}
    assert found.flows[2].summary()["delivery_rate_bps"] is None


def test_a_capture_after_the_losses_has_no_delivery_rate() -> None:
    at_receiver = replace(capture().flows[1], losses_before=2)
    assert at_receiver.summary()["delivery_rate_bps"] is None


def test_json_keeps_every_loss_and_warning() -> None:
    found = capture().to_json()
    assert found["warnings"] == ["cut short"]
    assert [len(flow["loss_events"]) for flow in found["flows"]] == [1, 2, 0]
    assert "loss_events" not in capture().to_json(events=False)["flows"][0]


@pytest.mark.parametrize("acks", [True, False])
def test_losses_that_rest_on_no_ack_have_a_warning(acks: bool, tmp_path: Path) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    server, client = Host("10.0.0.2", 40_000), Host("10.0.0.1", 5_201)
    Transfer(400, (20, 50), server, client).run()
    records = [record for record in server.records if acks or record[1][26:30] == bytes([10, 0, 0, 2])]
    path = tmp_path / "server.pcap"
    Host(server.address, server.port, records).write(path)
    for found in (losses_of(path).warnings, counts_of(path, 1).warnings):
        assert any("no ACK that shows an RTT" in warning for warning in found) != acks
