# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from weir.analysis.evaluate_policing_runs import policing_trials_of_runs
from weir.rundir.errors import RunFileError
from weir_tests.analysis.synthetic_run import SyntheticJoin, write_run


def edit(run_dir: Path, phase: int, change: dict[str, Any], *, policer: int = 0) -> None:
    """Change a policer of a phase in the manifest."""
    path = run_dir / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["phases"][phase]["policers"][policer].update(change)
    path.write_text(json.dumps(manifest))


def exact(joined: SyntheticJoin) -> SyntheticJoin:
    """The same run with all losses inferred exactly; each error would change the bucket by a frame."""
    index = joined.packets.schema.get_field_index("inferred_lost")
    packets = joined.packets.set_column(index, "inferred_lost", joined.packets["dropped"])
    return replace(joined, packets=packets)


def delayed(joined: SyntheticJoin, source: str, by_ns: int) -> SyntheticJoin:
    """The same run with the clock of one sender ahead by `by_ns`."""
    flows = [row["flow"] for row in joined.flows.to_pylist() if row["src"] == source]

    def moved(table: Any, column: str) -> Any:
        its = np.isin(table["flow"].to_numpy(), flows)
        index = table.schema.get_field_index(column)
        times = pc.add(table[column], pa.array(np.where(its, by_ns, 0), pa.int64()))
        return table.set_column(index, column, times)

    return replace(joined, packets=moved(joined.packets, "sent_ns"), rtts=moved(joined.rtts, "time_ns"))


def test_flows_of_a_run_are_compared_with_their_configured_policer(tmp_path: Path) -> None:
    joined = exact(write_run(tmp_path, seconds=2))
    trials, left_out = policing_trials_of_runs([tmp_path], ["policing"], joined)
    assert left_out == []
    assert [(t.kind, t.flow, t.policed, t.verdict) for t in trials] == [
        ("demo", f"{phase}/measured{i}", True, "policed") for phase in ("shared", "separate") for i in (1, 2)
    ]
    # The fixture has exact buckets. The third flow of the shared one is not measured but takes part in the
    # fit.
    for trial in trials:
        assert trial.rate_error is not None
        assert trial.rate_error < 0.001
        assert trial.burst_near


def test_clocks_of_senders_that_differ_are_aligned(tmp_path: Path) -> None:
    joined = delayed(exact(write_run(tmp_path, seconds=2)), "10.0.0.3", 7_000_000_000)
    trials, left_out = policing_trials_of_runs([tmp_path], ["policing"], joined)
    assert [(t.flow, t.verdict, t.burst_near) for t in trials] == [
        (f"{phase}/measured{i}", "policed", True) for phase in ("shared", "separate") for i in (1, 2)
    ]
    assert left_out == []


def test_a_flow_without_a_policer_is_not_policed_in_truth(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=3)
    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["phases"][1]["flows"][2]["measured"] = True
    path.write_text(json.dumps(manifest))
    trials, left_out = policing_trials_of_runs([tmp_path], ["policing-flach"], joined)
    assert left_out == []
    [free] = [trial for trial in trials if trial.flow == "separate/background1"]
    assert (free.policed, free.rate_error) == (False, None)
    assert sum(trial.policed for trial in trials) == 4


def test_a_flow_that_cannot_be_judged_is_named_with_the_reason(tmp_path: Path) -> None:
    joined = write_run(tmp_path, seconds=3)
    edit(tmp_path, 0, {"cells": 4})
    edit(tmp_path, 1, {"plain": False})
    edit(tmp_path, 1, {"name": "renamed"}, policer=1)
    trials, left_out = policing_trials_of_runs([tmp_path], ["policing-flach"], joined)
    assert trials == []
    hashed = "policer common: hashed or learned, so the flow's bucket is not in the configuration"
    assert [(one.run, one.flow, one.reason) for one in left_out] == [
        ("demo", "shared/measured1", hashed),
        ("demo", "shared/measured2", hashed),
        (
            *("demo", "separate/measured1"),
            "policer own1: its verdicts, colours or changes are not those of one plain token bucket",
        ),
        ("demo", "separate/measured2", "its policer own2 is not among those of the phase"),
    ]

    path = tmp_path / "manifest.json"
    manifest = json.loads(path.read_text())
    first, second = manifest["phases"][1]["flows"][:2]
    first.update(protocol=17, policer=None)
    second.update(src_port=1, policer=None)
    path.write_text(json.dumps(manifest))
    _, left_out = policing_trials_of_runs([tmp_path], ["policing-flach"], joined)
    assert [one.reason for one in left_out[2:]] == [
        "no TCP: its capture does not show what was lost",
        "no data packet of it in the captures",
    ]


def test_a_path_that_is_no_run_directory_is_refused_by_name(tmp_path: Path) -> None:
    joined = SyntheticJoin()
    file = tmp_path / "a.pcap"
    file.touch()
    for path in (tmp_path, file, tmp_path / "none"):
        with pytest.raises(RunFileError, match=r"manifest\.json: not found; a run directory holds "):
            policing_trials_of_runs([path], ["policing"], joined)
    write_run(tmp_path, seconds=2)
    (tmp_path / "pcap" / "server2.pcap").unlink()
    with pytest.raises(RunFileError, match=r"server2\.pcap: not found"):
        policing_trials_of_runs([tmp_path], ["policing"], joined)
