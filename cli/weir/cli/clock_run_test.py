# SPDX-License-Identifier: Apache-2.0
"""A run whose hosts have clocks of their own: the captures of a real run, stamped anew by such clocks.

The true clock of all hosts is that of this machine, so what the analysis says of the run as it was, it must
say again of each copy.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir.analysis.models import FlowResult, HostClockResult, Result
from weir.analysis.result import analyse
from weir.rundir.directory import RunDirectory
from weir.topo.sandbox import sandbox_problem
from weir_tests.analysis.shifted_clock import Clock, copy_run

pytestmark = pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}")

S, MS = 1_000_000_000, 1_000_000
EXPERIMENT = """
name: clocks
hosts:
  client: {delay: 10 ms}
  server1: {delay: 10 ms}
  server2: {delay: 5 ms}
  quiet: {delay: 10 ms}
flows:
  - {name: one, from: server1, to: client, congestion_control: cubic, duration: 12 s, measured: true}
  - {name: two, from: server2, to: client, congestion_control: cubic, duration: 12 s, measured: true}
  - {name: three, from: quiet, to: client, congestion_control: cubic, duration: 12 s,
     writes: {size: 20 kB, every: 100 ms}}
phases:
  - name: policed
    policers:
      - {name: common, rate: 20 Mbit/s, burst: 20 ms, match: [{from: [server1, server2], to: client}]}
"""
CLOCKS = {
    "offsets": {"server1": Clock(50 * MS), "server2": Clock(-50 * MS), "quiet": Clock(7 * S)},
    "drift": {"server1": Clock(0, 50.0), "server2": Clock(0, -50.0), "client": Clock(0, 20.0)},
    "a step of 5 ms": {"server1": Clock(steps=((6.0, 5 * MS),))},
    "a step back of 5 ms": {"server2": Clock(steps=((6.0, -5 * MS),))},
    "a step of 1 s": {"client": Clock(steps=((6.0, 1 * S),))},
    "a step back of 1 s": {"client": Clock(steps=((6.0, -1 * S),))},
    "as NTP keeps them": {
        "server1": Clock(1 * MS, 50.0, ((4.0, 3 * MS),)),
        "server2": Clock(-1 * MS, -50.0, ((8.0, -4 * MS),)),
        "client": Clock(MS // 2, 30.0, ((6.0, 2 * MS),)),
        "quiet": Clock(2 * MS, -30.0, ((9.0, 20 * MS),)),
    },
    "all wrong": {
        "server1": Clock(7 * S, 50.0, ((4.0, 1 * S),)),
        "server2": Clock(-20 * MS, -50.0, ((8.0, -1 * S),)),
        "client": Clock(-3 * S, 30.0, ((6.0, 20 * MS),)),
    },
}


@dataclass(frozen=True)
class Run:
    run_dir: Path
    result: Result


@pytest.fixture(scope="module")
def true(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("clocks")
    (folder / "clocks.yaml").write_text(EXPERIMENT)
    weir = str(Path(sys.executable).with_name("weir"))
    command = [weir, "run", str(folder / "clocks.yaml"), "--runs", str(folder / "runs"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    run_dir = (folder / "runs" / "clocks" / "latest").resolve()
    result = Result.model_validate_json(RunDirectory(run_dir).result.read_bytes())
    assert result.explained, result.headline
    assert result.law.reported_drops > 100
    return Run(run_dir, result)


@pytest.fixture(scope="module", params=CLOCKS)
def shifted(
    request: pytest.FixtureRequest, true: Run, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Clock], int, Run]:
    clocks = CLOCKS[request.param]
    run_dir = tmp_path_factory.mktemp("shifted") / "run"
    start_ns = copy_run(true.run_dir, run_dir, clocks)
    return clocks, start_ns, Run(run_dir, analyse(run_dir))


Shifted = tuple[dict[str, Clock], int, Run]


def account(flow: FlowResult) -> tuple[object, ...]:
    return (
        flow.id,
        *(flow.sent, flow.received, flow.reported_drops, flow.in_flight, flow.unexplained),
        *(flow.inferred_lost, flow.true_positive, flow.false_positive, flow.false_negative),
        *(flow.contradictions, flow.retransmissions, flow.spurious_retransmissions),
    )


def test_hosts_of_one_machine_are_found_to_have_one_clock(true: Run) -> None:
    assert {clock.host for clock in true.result.host_clocks} == {
        *("client", "server1", "server2", "quiet", "switch")
    }
    assert all(clock.same for clock in true.result.host_clocks if clock.host != "switch")
    assert not any("clock" in note for note in true.result.notes)
    assert true.result.switch_lateness is not None


def test_every_packet_is_accounted_for_as_with_one_clock(true: Run, shifted: Shifted) -> None:
    _, _, run = shifted
    assert run.result.law == true.result.law
    assert list(map(account, run.result.flows)) == list(map(account, true.result.flows))
    assert run.result.explained
    assert run.result.valid == true.result.valid
    assert [policer.disagreements for policer in run.result.policers] == [
        policer.disagreements for policer in true.result.policers
    ]
    assert len(run.result.other_flows) == len(true.result.other_flows)
    assert [(flow.kind, flow.phase) for flow in run.result.other_flows] == [
        (flow.kind, flow.phase) for flow in true.result.other_flows
    ]


def test_verdicts_are_those_with_one_clock(true: Run, shifted: Shifted) -> None:
    _, _, run = shifted
    found, wanted = (
        [(pair.detector, pair.verdict, pair.detail["switch_view"]["verdict"]) for pair in result.pairs]
        for result in (run.result, true.result)
    )
    assert found == wanted


def test_times_are_those_with_one_clock(true: Run, shifted: Shifted) -> None:
    _, _, run = shifted
    for flow, same in zip(run.result.flows, true.result.flows, strict=True):
        assert flow.duration_s == pytest.approx(same.duration_s, abs=5e-3)
        assert flow.min_rtt_s == pytest.approx(same.min_rtt_s, abs=1e-4)
        assert flow.mean_delay_s == pytest.approx(same.mean_delay_s, abs=2e-4)
        assert flow.throughput_bps == pytest.approx(same.throughput_bps, rel=1e-3)
        if same.time_error_p95_s is not None:
            assert flow.time_error_p95_s == pytest.approx(same.time_error_p95_s, abs=1e-4)


def test_series_are_those_with_one_clock(true: Run, shifted: Shifted) -> None:
    _, _, run = shifted
    found, wanted = (received(one.run_dir) for one in (run, true))
    assert found.keys() == wanted.keys()
    for flow, series in wanted.items():
        assert np.abs(np.cumsum(found[flow]) - np.cumsum(series)).max() <= 0.03 * series.sum(), flow


def received(run_dir: Path) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    table = pq.read_table(RunDirectory(run_dir).series)
    table = table.filter(pa.compute.equal(table["kind"], "received_bps"))
    rows = table.select(["subject", "value"]).to_pylist()
    names = dict.fromkeys(row["subject"] for row in rows)
    return {name: np.array([row["value"] for row in rows if row["subject"] == name]) for name in names}


def beside(clock: Clock, reference: Clock, at_ns: int, start_ns: int) -> int:
    """By how much a clock is ahead of another one at a true time."""
    at = np.array([at_ns])
    return int(clock.stamps(at, start_ns)[0] - reference.stamps(at, start_ns)[0])


def test_offsets_and_drifts_are_found_within_the_errors_stated(true: Run, shifted: Shifted) -> None:
    clocks, start_ns, run = shifted
    found: dict[str, HostClockResult] = {clock.host: clock for clock in run.result.host_clocks}
    del found["switch"]
    for host, clock in found.items():
        reference = clocks.get(clock.reference, Clock())
        mine = clocks.get(host, Clock())
        assert clock.error_ns is not None
        assert clock.error_ns < MS // 2
        # The first packet of every host is in the first second.
        early, late = (beside(mine, reference, start_ns + at * S, start_ns) for at in (0, 1))
        assert min(early, late) - clock.error_ns <= clock.offset_ns <= max(early, late) + clock.error_ns
        drift = (mine.drift_ppm - reference.drift_ppm) / (1 + reference.drift_ppm * 1e-6)
        if not clock.same:
            # A drift is known as well as the error over the time between the steps.
            assert clock.drift_ppm == pytest.approx(drift, abs=1e6 * clock.error_ns / (4 * S))


def test_steps_are_found_and_noted(true: Run, shifted: Shifted) -> None:
    clocks, start_ns, run = shifted
    for clock in run.result.host_clocks:
        steps = clocks[clock.host].steps if clock.host in clocks else ()
        assert len(clock.steps) == len(steps), clock
        for found, (at_s, size_ns) in zip(clock.steps, steps, strict=True):
            reference = clocks.get(clock.reference, Clock())
            at_ns = start_ns + round(at_s * S)
            assert abs(found.at_ns - beside(reference, Clock(), at_ns, start_ns) - at_ns) < 500 * MS
            assert found.size_ns == pytest.approx(size_ns, abs=clock.error_ns or MS // 2)
            assert any(note.startswith(f"the clock of {clock.host} was set by") for note in run.result.notes)


def test_a_switch_whose_clock_was_set_is_found(true: Run, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(true.run_dir, run_dir)
    path = RunDirectory(run_dir).telemetry
    table = pq.read_table(path)
    ingress = table["ingress_ns"].to_numpy().astype(np.int64)
    half = (int(ingress.min()) + int(ingress.max())) // 2
    # As a switch that was restarted, its clock begins anew.
    ingress = np.where(ingress >= half, ingress - half + 1, ingress)
    index = table.schema.get_field_index("ingress_ns")
    field = table.schema.field(index)
    pq.write_table(table.set_column(index, field, pa.array(ingress, field.type)), path)
    result = analyse(run_dir)
    assert list(map(account, result.flows)) == list(map(account, true.result.flows))
    assert [pair.verdict for pair in result.pairs] == [pair.verdict for pair in true.result.pairs]
    (switch,) = (clock for clock in result.host_clocks if clock.host == "switch")
    (step,) = switch.steps
    assert step.size_ns == pytest.approx(1 - half, abs=MS)
    assert any(note.startswith("the switch's clock was set by") for note in result.notes)
    assert result.valid == true.result.valid
