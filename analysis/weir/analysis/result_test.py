# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.analysis.detectors import RUN_DETECTORS
from weir.analysis.models import Result
from weir.analysis.report import write_report
from weir.analysis.result import analyse
from weir.analysis.series import PER_RTT
from weir.rundir.errors import RunFileError
from weir.rundir.manifest import SwitchStats
from weir_tests.analysis.synthetic_run import DRIFT_PPM, SyntheticJoin, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SyntheticJoin, Result]:
    run_dir = tmp_path_factory.mktemp("run")
    joined = write_run(run_dir, seconds=15)
    return run_dir, joined, analyse(run_dir, joined)


def edit(run_dir: Path, name: str, change: dict[str, Any]) -> None:
    path = run_dir / name
    path.write_text(json.dumps(json.loads(path.read_text()) | change))


def test_every_packet_of_a_sound_run_is_explained(run: tuple[Path, SyntheticJoin, Result]) -> None:
    _, _, result = run
    assert result.explained, result.headline
    assert result.valid, result.invalid_reasons
    assert all(flow.unexplained == 0 for flow in result.flows)
    assert all(flow.sent - flow.received == flow.reported_drops > 0 for flow in result.flows if flow.policer)
    assert result.headline == f"Every one of {result.law.missing:,} lost packets is explained."
    assert result.law.missing == result.law.explained == sum(flow.reported_drops for flow in result.flows)


def test_the_law_covers_all_packets_between_the_hosts(run: tuple[Path, SyntheticJoin, Result]) -> None:
    _, joined, result = run
    assert result.law.sent == joined.packets.num_rows
    assert sum(phase.law.sent for phase in result.phases) == result.law.sent
    assert {other.kind for other in result.other_flows} == {"acks", "control"}


def test_policer_counts_agree_and_the_rate_is_kept(run: tuple[Path, SyntheticJoin, Result]) -> None:
    _, _, result = run
    assert [(p.phase, p.name) for p in result.policers] == [
        ("shared", "common"),
        ("separate", "own1"),
        ("separate", "own2"),
    ]
    for policer in result.policers:
        assert policer.disagreements == ()
        assert policer.packets_met == policer.sent_in_captures
        assert policer.conformance is not None
        assert policer.conformance.deviation_percent is not None
        assert policer.conformance.deviation_percent <= 0.5
        first = policer.conformance.first_burst
        assert first is not None
        assert first.expected_bytes - 2 * 1514 < first.passed_bytes < first.expected_bytes + 2 * 1514


def test_counts_of_a_policer_that_flows_left_are_not_compared_with_its_flows(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=6)
    phases = json.loads((tmp_path / "manifest.json").read_text())["phases"]
    policer = phases[1]["policers"][0]
    policer["packets_met"] -= 100
    policer["counters"]["green"] = {
        "packets": policer["counters"]["green"]["packets"] - 100,
        "bytes": policer["counters"]["green"]["bytes"] - 151_400,
    }
    change = {"at_s": 3.0, "name": policer["name"], "index": policer["index"], "cells": 1, "match": True}
    phases[1]["changes"] = [change | {"rate_bps": policer["rate_bps"], "burst_bytes": policer["burst_bytes"]}]
    edit(tmp_path, "manifest.json", {"phases": phases})
    result = analyse(tmp_path, joined)
    assert result.explained, result.headline
    common, left, _ = result.policers
    assert common.sent_in_captures == common.packets_met
    assert (left.sent_in_captures, left.passed_bytes_in_captures, left.agrees) == (None, None, None)
    assert left.reported_drops == left.red
    assert left.agreement.startswith("flows came to it or left it during the phase")

    policer["counters"]["red"]["packets"] += 1
    policer["packets_met"] += 1
    edit(tmp_path, "manifest.json", {"phases": phases})
    _, left, _ = analyse(tmp_path, joined).policers
    assert left.disagreements == (
        f"{left.red:,} red packets, but {left.reported_drops:,} drop reports and 0 known lost",
    )


def test_clocks_are_aligned_by_the_dropped_packets(run: tuple[Path, SyntheticJoin, Result]) -> None:
    _, _, result = run
    assert {clock.host for clock in result.clocks} == {"server1", "server2", "server3"}
    for clock in result.clocks:
        assert clock.drift_ppm == pytest.approx(DRIFT_PPM, abs=0.5)
        assert clock.residual_ns < 20_000


def test_pairs_carry_verdict_and_truth(run: tuple[Path, SyntheticJoin, Result]) -> None:
    _, _, result = run
    assert [(pair.phase, pair.truth, pair.detector) for pair in result.pairs] == [
        (truth, truth, detector) for truth in ("shared", "separate") for detector in RUN_DETECTORS
    ]
    ours = [pair.verdict for pair in result.pairs if pair.detector == "shared"]
    assert ours == ["shared", "separate"]
    for pair in result.pairs:
        assert pair.detail["switch_view"]["verdict"] in ("shared", "separate", "cannot_tell")


def test_the_view_of_the_switch_is_judged_by_its_drops(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=8)
    manifest = json.loads((tmp_path / "manifest.json").read_text()) | {"detectors": ["shared"]}
    edit(tmp_path, "manifest.json", manifest)
    same = analyse(tmp_path, joined).pairs

    column = joined.packets.schema.get_field_index("inferred_lost")
    none = pa.array(np.zeros(len(joined.packets), dtype=bool))
    blind = analyse(
        tmp_path, replace(joined, packets=joined.packets.set_column(column, "inferred_lost", none))
    ).pairs
    for pair, seen in zip(same, blind, strict=True):
        assert pair.detail["switch_view"] == {"verdict": pair.verdict, "reason": pair.reason}
        assert seen.verdict == "cannot_tell"
        assert seen.detail["switch_view"] == pair.detail["switch_view"]


def test_a_run_is_judged_by_the_detectors_that_it_names(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=2)
    manifest = json.loads((tmp_path / "manifest.json").read_text()) | {"detectors": ["rfc8382", "buckets"]}
    edit(tmp_path, "manifest.json", manifest)
    found = [pair.detector for pair in analyse(tmp_path, joined).pairs]
    assert found == ["rfc8382", "buckets"] * 2


def test_detectors_of_delay_see_round_trips_on_the_clock_of_the_packets(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=8)
    manifest = json.loads((tmp_path / "manifest.json").read_text()) | {"detectors": ["delay-pearson"]}
    edit(tmp_path, "manifest.json", manifest)
    for pair in analyse(tmp_path, joined).pairs:
        assert pair.detail["clock"] == "switch"
        smallest = pair.detail["sizes"][0]
        assert smallest["n"] >= 0.9 * smallest["intervals"] > 0, smallest


def test_files_have_the_documented_fields(run: tuple[Path, SyntheticJoin, Result]) -> None:
    run_dir, _, result = run
    written = json.loads((run_dir / "result.json").read_text())
    assert written["schema"] == 1
    wanted = {
        *("id", "src", "dst", "cc", "policer", "sent", "received", "reported_drops", "reports_lost"),
        *("in_flight", "unexplained", "inferred_lost", "true_positive", "false_positive", "false_negative"),
        *("precision", "recall", "loss_ratio", "throughput_bps", "min_rtt_s", "mean_delay_s"),
    }
    assert wanted <= set(written["flows"][0])
    assert {"name", "rate_bps", "burst_bytes", "green", "yellow", "red"} <= set(written["policers"][0])
    assert {"flows", "truth", "detector", "verdict", "detail"} <= set(written["pairs"][0])
    assert Result.model_validate(written) == result
    flows = pq.read_table(run_dir / "flows.parquet").to_pylist()
    assert len(flows) == len(result.flows) + len(result.other_flows)
    kinds = set(pq.read_table(run_dir / "series.parquet")["kind"].to_pylist())
    assert {"switch_loss_ratio", "inferred_loss_ratio", "received_bps", "rtt_s", "passed_bytes"} <= kinds
    assert list(run_dir.glob("*.part")) == []


def test_measured_flows_have_their_throughput_at_intervals_of_their_rtt(
    run: tuple[Path, SyntheticJoin, Result],
) -> None:
    run_dir, _, result = run
    flow = next(flow for flow in result.flows if flow.measured)
    phase = next(phase for phase in result.phases if flow.id.startswith(phase.name))
    found: dict[str, tuple[list[float], list[float]]] = {}
    for kind in ("received_bps", PER_RTT):
        wanted = [("kind", "=", kind), ("subject", "=", flow.id), ("phase", "=", phase.name)]
        rows = pq.read_table(run_dir / "series.parquet", filters=wanted)
        found[kind] = rows["time_s"].to_pylist(), rows["value"].to_pylist()
    times, _ = found[PER_RTT]
    assert times[1] - times[0] == pytest.approx(flow.min_rtt_s, rel=0.01)
    # Both series count the same bytes.
    sums = [sum(rates) * (times[1] - times[0]) for times, rates in found.values()]
    assert sums[0] == pytest.approx(sums[1], rel=1e-3)


def test_lost_reports_are_attributed_and_named_in_the_headline(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=3)
    rows = joined.packets.to_pylist()
    dropped = [i for i, row in enumerate(rows) if row["dropped"]]
    for i in dropped[10:15]:
        rows[i] |= {"dropped": False, "policer": None, "ingress_ns": None}
    joined.packets = type(joined.packets).from_pylist(rows, joined.packets.schema)
    edit(tmp_path, "collector.json", {"received": len(dropped) - 5, "lost": 3})
    result = analyse(tmp_path, joined)
    assert (result.telemetry.lost_in_gaps, result.telemetry.lost_in_tail) == (3, 2)
    assert sum(flow.reports_lost for flow in result.flows) == 5
    assert result.explained, result.headline
    assert "5 of them by drop reports that are known to be lost" in result.headline


def test_a_vanished_packet_is_not_explained(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=3)
    rows = joined.packets.to_pylist()
    arrived = [i for i, row in enumerate(rows) if row["received_ns"] is not None and row["flow"] == 0]
    rows[arrived[20]]["received_ns"] = None
    joined.packets = type(joined.packets).from_pylist(rows, joined.packets.schema)
    result = analyse(tmp_path, joined)
    assert not result.explained
    assert result.flows[0].unexplained == 1
    assert result.headline.startswith("1 of ")


def test_counters_that_disagree_are_named(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=3)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["phases"][0]["policers"][0]["packets_met"] += 1
    edit(tmp_path, "manifest.json", manifest)
    result = analyse(tmp_path, joined)
    assert not result.explained
    assert "shared/common" in result.headline


def test_losses_of_the_measurement_make_the_run_invalid(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=2)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["hosts"][1]["capture_drops"] = 7
    manifest["hosts"][2]["capture_received"] = 1234
    manifest["switch"]["stats"]["ports"][0]["rx_overruns"] = 3
    manifest["switch"]["stats"]["dataplane"] = {"received": 9, "dropped_no_port": 4}
    manifest["phases"][0]["flows"].append(manifest["phases"][0]["flows"][0] | {"id": "x", "src_port": 9})
    manifest |= {"complete": False, "state": "interrupted"}
    edit(tmp_path, "manifest.json", manifest)
    edit(tmp_path, "collector.json", {"kernel_drops": 2})
    result = analyse(tmp_path, joined)
    assert not result.valid
    assert result.invalid_reasons == (
        "the run did not finish (interrupted)",
        "the capture of server1 lost 7 packets",
        "the file of server2's capture has 1 packet, but 1,234 were captured: was the disk full?",
        "switch port 1: 3 frames lost before the switch read them",
        "flow x is in no capture",
        "the collector's socket dropped 2 reports",
    )
    assert result.notes == ("the switch dropped 4 packets that were sent to a port that does not exist",)


def test_missing_and_malformed_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"manifest\.json: not found"):
        analyse(tmp_path)
    joined = write_run(tmp_path, seconds=1)
    edit(tmp_path, "manifest.json", {"phases": [{"name": "x", "policers": [{"name": "p", "index": 0}]}]})
    with pytest.raises(RunFileError, match=r"phases\.0\.policers\.0\.rate_bps"):
        analyse(tmp_path, joined)


def test_a_missing_capture_is_named(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=1)
    (tmp_path / "pcap" / "server2.pcap").unlink()
    with pytest.raises(RunFileError, match="capture of server2"):
        analyse(tmp_path, joined)


def test_a_run_without_a_packet_is_not_valid_but_has_a_result_and_a_report(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=1)
    joined.packets, joined.rtts = joined.packets.slice(0, 0), joined.rtts.slice(0, 0)
    result = analyse(tmp_path, joined)
    assert not result.valid
    assert "flow shared/measured1 is in no capture" in result.invalid_reasons
    assert result.law.sent == 0
    assert {pair.verdict for pair in result.pairs} == {"cannot_tell"}
    assert write_report(tmp_path).exists()


def test_flows_keep_the_order_of_the_configuration(run: tuple[Path, SyntheticJoin, Result]) -> None:
    run_dir, _, result = run
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert [flow.id for flow in result.flows] == [
        flow["id"] for phase in manifest["phases"] for flow in phase["flows"]
    ]


def test_unreported_losses_are_those_of_links_and_of_queues_without_deflection() -> None:
    ports = [{"port": 1, "queue_drops": 5, "link_lost": 2}, {"port": 2, "link_lost": 4}]
    stats = SwitchStats.model_validate({"ports": ports, "dataplane": {"deflected": 3}})
    assert stats.unreported_losses == (5 - 3) + 2 + 4
