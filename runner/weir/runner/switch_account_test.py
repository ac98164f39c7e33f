# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from weir.controlplane.counters import PortCounters
from weir.controlplane.entities import Count
from weir.runner.switch_account import PortMet, gaps_by_port, port_stats
from weir.topo.interfaces import InterfaceCounters
from weir.topo.wiring import WireCounters

KERNEL = InterfaceCounters(rx_packets=1_000, rx_bytes=90_000, tx_packets=500, tx_bytes=40_000)


def met(received: int = 1_000, sent: int = 500, reports: int = 0) -> PortMet:
    program = PortCounters(Count(received, received * 90), Count(sent, sent * 80))
    return PortMet("port1", KERNEL, program, reports)


def test_a_port_whose_counters_agree_lost_nothing() -> None:
    stats = port_stats(1, met(), None, None)
    assert (stats.rx_packets, stats.rx_overruns, stats.tx_packets, stats.tx_errors) == (1_000, 0, 500, 0)


def test_frames_that_the_program_did_not_meet_were_lost_before_the_switch_read_them() -> None:
    assert port_stats(1, met(received=993), None, None).rx_overruns == 7


def test_frames_that_the_kernel_did_not_get_could_not_be_sent() -> None:
    assert port_stats(1, met(sent=503), None, None).tx_errors == 3


def test_reports_leave_through_the_port_of_the_collector() -> None:
    assert port_stats(4, met(sent=2, reports=498), None, None).tx_errors == 0


def test_what_bmv2_does_not_tell_is_not_set() -> None:
    written = port_stats(1, met(), None, None).model_fields_set
    assert not written & {"queue_drops", "queue_drop_bytes", "in_flight", "link_lost", "tx_waiting", "up"}


def test_losses_of_the_wire_are_those_of_its_port() -> None:
    stats = port_stats(1, met(received=999), WireCounters(lost=20, overruns=4, errors=2, in_flight=0), 30)
    assert (stats.link_lost, stats.rx_overruns, stats.tx_errors, stats.queue_drops) == (20, 5, 2, 30)


def test_gaps_are_counted_for_the_port_of_the_packet_behind_them(tmp_path: Path) -> None:
    client, server = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
    rows = {
        "queue_lost": pa.array([None, 3, 4, 5, 0], pa.int32()),
        "inner": pa.array(
            [destination + b"\x06" * 8 for destination in (client, client, server, client, server)]
        ),
    }
    pq.write_table(pa.table(rows), tmp_path / "telemetry.parquet")
    ports = {"02:00:00:00:00:01": 1, "02:00:00:00:00:02": 2}
    assert gaps_by_port(tmp_path / "telemetry.parquet", ports) == {1: 8, 2: 4}
