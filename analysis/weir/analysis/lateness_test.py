# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from weir.analysis.lateness import switch_lateness
from weir.analysis.run_data import RunData, join
from weir.rundir.collector import read_collector
from weir.rundir.manifest import Manifest, read_manifest
from weir_tests.analysis.synthetic_run import DELAY_NS, write_run


@pytest.fixture(scope="module", name="data")
def _data(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    run_dir = tmp_path_factory.mktemp("run")
    joined = write_run(run_dir, seconds=3)
    return join(run_dir, read_manifest(run_dir), read_collector(run_dir), joined)


def with_hosts(manifest: Manifest, **change: object) -> Manifest:
    return manifest.model_copy(update={"hosts": tuple(h.model_copy(update=change) for h in manifest.hosts)})


def test_lateness_is_the_delay_beyond_that_of_the_link(data: RunData) -> None:
    found = switch_lateness(data.manifest, data.flows)
    earlier = switch_lateness(with_hosts(data.manifest, delay_s=0.0), data.flows)
    assert found is not None
    assert earlier is not None
    assert earlier.p50_s - found.p50_s == pytest.approx(DELAY_NS / 1e9)
    received = sum(int(flow.packets.received.sum()) for flow in data.flows)
    assert found.frames == earlier.frames == received


def test_two_stalled_frames_in_a_hundred_show_at_the_99th_percentile_and_not_at_the_median(
    data: RunData,
) -> None:
    before = switch_lateness(data.manifest, data.flows)
    stalled = []
    for flow in data.flows:
        received_ns = flow.packets.received_ns.copy()
        received_ns[::50] += 7_000_000
        stalled.append(replace(flow, packets=replace(flow.packets, received_ns=received_ns)))
    after = switch_lateness(data.manifest, stalled)
    assert before is not None
    assert after is not None
    assert after.p50_s == pytest.approx(before.p50_s, abs=2e-5)
    # The 99th percentile is the median of the stalled 2 %.
    assert after.p99_s == pytest.approx(before.p50_s + 7e-3, abs=1e-4)


@pytest.mark.parametrize("change", [{"rate_bps": 10**6}, {"jitter_s": 0.001}, {"line_rate_bps": 10**8}])
def test_frames_that_may_have_been_queued_are_not_counted(data: RunData, change: dict[str, object]) -> None:
    assert switch_lateness(with_hosts(data.manifest, **change), data.flows) is None


def test_frames_on_a_fast_line_are_counted(data: RunData) -> None:
    assert switch_lateness(with_hosts(data.manifest, line_rate_bps=10**10), data.flows) is not None


def test_two_clocks_are_not_subtracted(data: RunData) -> None:
    assert switch_lateness(data.manifest.model_copy(update={"target": "tofino"}), data.flows) is None
