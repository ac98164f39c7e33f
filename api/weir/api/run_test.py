# SPDX-License-Identifier: Apache-2.0
"""The tables of an opened run, on captures of a simulated transfer whose losses are known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import weir
from weir.analysis.models import Law, LinkResult, PairResult, PhaseResult, PolicerResult
from weir.analysis.result import analyse
from weir.api.captures import Capture
from weir.rundir.directory import held, hold
from weir.rundir.errors import RunFileError
from weir.rundir.manifest_file import ManifestFile
from weir.rundir.plural import plural
from weir_tests.analysis.synthetic_run import write_run as write_synthetic_run
from weir_tests.analysis.tcp_capture import DELAY_NS, MSS, write_run

weir_core = pytest.importorskip("weir_core", reason="weir_core is not built; make setup builds it")

DROPPED = (20, 50, 51, 120)
SENT = 400 + len(DROPPED)
PAIR: dict[str, Any] = {
    **{"phase": "a", "flows": ("b", "c"), "truth": "shared", "detector": "shared", "verdict": "shared"},
    **{"reason": "", "detail": {"p": 0.5}},
}
POLICER: dict[str, Any] = {
    **dict.fromkeys(PolicerResult.model_fields, None),
    **{
        "name": "a",
        "phase": "b",
        "agreement": "",
        "disagreements": (),
        "reported_drops": 0,
        "reports_lost": 0,
    },
    **dict.fromkeys(("rate_bps", "burst_bytes", "effective_rate_bps", "effective_burst_bytes"), 1.0),
}
CONFORMANCE: dict[str, Any] = {
    **{"window_s": 0.1, "windows": 1, "saturated_windows": 0, "excess_percent": None},
    **dict.fromkeys(("saturated_deviation_percent", "rate_error_percent", "deviation_percent")),
    "first_burst": {"passed_bytes": 7, "expected_bytes": 7.0, "elapsed_s": 1.0},
}
RECORDED = Path(__file__).parents[3] / "rundir" / "weir_tests" / "rundir" / "manifest-0.1.0.json"


@pytest.fixture(scope="module", name="transfer_dir")
def _transfer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run_dir = tmp_path_factory.mktemp("transfer")
    write_run(run_dir, drop=DROPPED)
    analyse(run_dir)
    return run_dir


@pytest.fixture(name="run")
def _run(transfer_dir: Path) -> weir.Run:
    return weir.open_run(transfer_dir)


def test_a_run_has_the_flows_of_its_result(run: weir.Run) -> None:
    assert (run.complete, run.problem, run.valid, run.unexplained, run.cell) == (True, None, True, 0, {})
    (row,) = run.flows.arrow().to_pylist()
    (flow,) = run.result.flows
    assert row == flow.model_dump(exclude={"causes", "false_inferences"})
    assert (row["sent"], row["reported_drops"], row["inferred_lost"]) == (SENT, 4, 4)
    (acks,) = run.other_flows.arrow().to_pylist()
    assert (acks["kind"], acks["of"], acks["unexplained"]) == ("acks", flow.id, 0)


def test_the_packets_are_those_of_the_captures_with_the_drops_of_the_switch(run: weir.Run) -> None:
    packets = run.packets.polars()
    data = packets.filter(polars.col("kind") == "data")
    assert len(data) == SENT
    lost = np.flatnonzero(data["dropped"].to_numpy())
    assert lost.tolist() == np.flatnonzero(data["inferred_lost"].to_numpy()).tolist() == list(DROPPED)
    # A forwarded packet arrived exactly one path delay later; a dropped packet has no arrival.
    arrived = data.filter(~polars.col("dropped"))
    assert set(arrived["received_ns"] - arrived["sent_ns"]) == {DELAY_NS}
    assert data.filter("dropped")["received_ns"].null_count() == 4
    assert set(data["payload_length"]) == {MSS}


def test_the_inferred_losses_are_those_of_the_result_with_the_flow_by_name(run: weir.Run) -> None:
    losses = run.losses.arrow()
    dropped = run.packets.arrow().filter(pc.field("inferred_lost"))
    assert losses["sent_ns"].to_pylist() == dropped["sent_ns"].to_pylist()
    assert losses["detected_ns"].to_pylist() == dropped["inferred_at_ns"].to_pylist()
    assert set(losses["flow"].to_pylist()) == {run.result.flows[0].id}
    assert len(run.captures["client"].losses) == 0  # it sent ACKs only


def test_round_trips_are_those_of_the_path(run: weir.Run) -> None:
    rtts = run.rtts.arrow()
    assert pc.min(rtts["rtt_ns"]).as_py() == 2 * DELAY_NS
    assert set(rtts["flow"].to_pylist()) == {run.result.flows[0].id}


def test_a_capture_is_read_in_steps_by_libraries_that_take_arrow_streams(run: weir.Run) -> None:
    capture = run.captures["server"]
    whole = pa.concat_tables(capture.segments())
    to_client = whole.filter(pc.field("src") == "10.0.0.2")
    assert len(to_client) == SENT
    assert pc.sum(to_client["payload_bytes"]).as_py() == sum(
        flow["payload_bytes"] for flow in capture.flows.arrow().to_pylist() if flow["src"] == "10.0.0.2"
    )
    assert duckdb.sql("select count(*) from capture").fetchall() == [(len(whole),)]
    assert polars.DataFrame(capture).height == len(whole)
    first = next(capture.frames())
    assert first.time_ns == whole["time_ns"][0].as_py()


def test_flows_of_each_capture_have_the_same_columns(run: weir.Run) -> None:
    client, server = (run.captures[host].flows.arrow() for host in ("client", "server"))
    assert client.schema.equals(server.schema)
    for row in server.to_pylist():
        causes = [count for name, count in row.items() if name.startswith("causes_")]
        assert sum(causes) == row["losses"] + row["losses_before"]
    assert pc.sum(server["losses"]).as_py() > 0


def test_a_capture_says_what_makes_its_losses_less_sure(run: weir.Run, tmp_path: Path) -> None:
    capture = run.captures["server"]
    assert capture.warnings == ()
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(capture.path.read_bytes()[:-5])
    (warning,) = Capture("server", capture.addresses, cut, {}).warnings
    assert "cut.pcap" in warning


def test_every_table_is_arrow_pandas_polars_and_html(run: weir.Run) -> None:
    names = [name for name, value in vars(type(run)).items() if hasattr(value, "attrname") and name[0] != "_"]
    tables = {name: value for name in names if isinstance(value := getattr(run, name), weir.Table)}
    assert {"flows", "policers", "pairs", "series", "telemetry", "losses", "packets"} <= set(tables)
    for name, table in tables.items():
        if name in {"sockets", "tuning"}:  # the simulation has no kernel whose sockets could be sampled
            continue
        arrow = table.arrow()
        assert len(table) == arrow.num_rows == len(table.pandas()) == table.polars().height, name
        assert table.columns == tuple(arrow.column_names) == tuple(table.pandas().columns), name
        assert polars.DataFrame(table).equals(table.polars()), name
        assert plural(len(table), "row") in table._repr_html_(), name
        assert repr(table).startswith(f"<{name}: "), name


def test_decisions_of_tuners_are_read_where_a_host_has_one(run: weir.Run, tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=r"tuning.parquet: not found; only runs whose hosts have a tuner"):
        len(run.tuning)
    rows = [{"time_ns": 1, "sysctl": "net.ipv4.tcp_ecn", "predicted": "near", "value": "0"}]
    tuned = shutil.copytree(run.path, tmp_path / "tuned")
    pq.write_table(pa.Table.from_pylist(rows), tuned / "tuning.parquet")
    assert weir.open_run(tuned).tuning.arrow().to_pylist() == rows


def test_whole_numbers_stay_exact_in_pandas_where_some_are_null(run: weir.Run) -> None:
    received = run.packets.pandas()["received_ns"]
    assert str(received.dtype) == "Int64"
    assert received.dropna().tolist() == run.packets.arrow()["received_ns"].drop_null().to_pylist()


def test_telemetry_is_scanned_without_being_read(run: weir.Run) -> None:
    ingress = run.telemetry.scan().to_table(columns=["ingress_ns"], filter=pc.field("dropped"))
    assert ingress.num_rows == 4
    assert len(run.telemetry) == 4
    assert "inner" in run.telemetry.columns
    assert run.telemetry._arrow is None


def test_pairs_and_policers_are_flat(tmp_path: Path) -> None:
    analyse(tmp_path, write_synthetic_run(tmp_path, seconds=8))
    run = weir.open_run(tmp_path)
    policers = run.policers.arrow().to_pylist()
    assert [row["name"] for row in policers] == ["common", "own1", "own2"]
    known = run.result.policers[0].conformance
    assert known is not None
    assert policers[0]["conformance_windows"] == known.windows
    pairs = run.pairs.arrow().to_pylist()
    assert [(row["flow1"], row["truth"]) for row in pairs] == [
        (pair.flows[0], pair.truth) for pair in run.result.pairs
    ]
    assert json.loads(pairs[0]["detail"]).keys() == run.result.pairs[0].detail.keys()


def test_the_page_of_a_run_in_a_notebook_has_the_numbers_of_the_terminal(run: weir.Run) -> None:
    shown = run._repr_html_()
    for part in (run.name, run.result.headline, f">{SENT}<", "dropped by switch", "unexplained"):
        assert part in shown
    assert repr(run).endswith("1 flow, 0 packets unexplained>")


def test_names_of_a_run_are_escaped(tmp_path: Path, transfer_dir: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(transfer_dir, copy)
    for path in (copy / "manifest.json", copy / "result.json"):
        data = json.loads(path.read_text())
        path.write_text(json.dumps(data | {"name": "<script>alert(1)</script>"}))
    assert "<script>" not in weir.open_run(copy)._repr_html_()


def incomplete(folder: Path, **fields: Any) -> weir.Run:
    write_run(folder)
    file = ManifestFile.load(folder)
    file.update(complete=False, **fields)
    file.write()
    return weir.open_run(folder)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"state": "failed", "error": "tcpdump is gone"}, "the run failed: tcpdump is gone"),
        ({"state": "interrupted", "error": "stopped early"}, "stopped early"),
        ({"state": "running"}, "the run was killed before its end"),
    ],
)
def test_an_incomplete_run_opens_and_says_why(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    run = incomplete(tmp_path, **fields)
    assert (run.complete, run.problem, run.valid) == (False, problem, False)
    assert problem in repr(run)
    assert problem in run._repr_html_()
    for table in (run.flows, run.series, run.policers):
        with pytest.raises(weir.RunFileError, match=problem):
            table.arrow()
    assert len(run.losses) == 4  # its captures are there


def test_a_run_in_progress_says_so(tmp_path: Path) -> None:
    run = incomplete(tmp_path, state="running")
    hold(tmp_path)
    assert run.problem == "the run is not over yet"


def test_a_run_under_analysis_says_so(tmp_path: Path) -> None:
    write_run(tmp_path)
    with held(tmp_path):
        assert weir.open_run(tmp_path).problem == "the run is being analysed"


def test_a_run_without_its_analysis_is_analysed_on_request(tmp_path: Path) -> None:
    write_run(tmp_path)
    run = weir.open_run(tmp_path)
    assert run.complete
    with pytest.raises(weir.RunFileError, match=r"flows\.parquet: not found; .*Run\.analyse"):
        run.flows.arrow()
    analysed = run.analyse()
    assert (analysed.problem, len(analysed.flows), analysed.report.is_file()) == (None, 1, True)


def test_raw_files_that_a_campaign_deleted_are_named(tmp_path: Path, transfer_dir: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(transfer_dir, copy)
    shutil.rmtree(copy / "pcap")
    (copy / "telemetry.parquet").unlink()
    run = weir.open_run(copy)
    assert len(run.flows) == 1
    for table in (run.telemetry, run.losses):
        with pytest.raises(weir.RunFileError, match=r"not found; .*keep: results"):
            len(table)
    assert repr(run.captures["client"]).endswith("not there>")


def test_a_directory_that_is_no_run_is_refused_with_what_is_valid(tmp_path: Path, transfer_dir: Path) -> None:
    with pytest.raises(weir.RunFileError, match="not found; valid: a run directory"):
        weir.open_run(tmp_path / "nothing")
    with pytest.raises(weir.RunFileError, match=r"no manifest\.json in it.*valid: a run directory"):
        weir.open_run(tmp_path)
    (tmp_path / "latest").symlink_to(transfer_dir)
    with pytest.raises(weir.RunFileError, match=f"valid: {tmp_path}/latest"):
        weir.open_run(tmp_path)
    assert weir.open_run(tmp_path / "latest").path == transfer_dir.resolve()
    (tmp_path / "campaign.yaml").touch()
    with pytest.raises(weir.RunFileError, match=r"a campaign; valid: weir\.open_campaign"):
        weir.open_run(tmp_path)


def test_a_run_of_version_0_1_0_opens(tmp_path: Path) -> None:
    shutil.copy(RECORDED, tmp_path / "manifest.json")
    run = weir.open_run(tmp_path)
    assert (run.name, run.complete) == ("demo", True)
    assert list(run.captures) == [host.name for host in run.manifest.hosts]


def test_pandas_and_polars_are_optional(run: weir.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, convert in (("pandas", run.flows.pandas), ("polars", run.flows.polars)):
        monkeypatch.setitem(__import__("sys").modules, package, None)
        with pytest.raises(ImportError, match=rf"{package} is not installed.*weir-policer\[notebook\]"):
            convert()


def test_a_parquet_file_is_read_once_and_a_missing_one_names_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    table = weir.ParquetTable("some", path, "the writer writes it")
    with pytest.raises(weir.RunFileError, match=r"some\.parquet: not found; the writer writes it"):
        len(table)
    pq.write_table(pa.table({"a": [1, 2]}), path)
    assert table.arrow() is table.arrow()
    assert table.head(1).to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("content", [b"", b'{"schema": 1, "na', b"\xff\xfe"])
def test_a_run_with_a_damaged_result_is_shown_with_the_reason(transfer_dir: Path, content: bytes) -> None:
    copy = transfer_dir.with_name(f"damaged-{len(content)}")
    shutil.copytree(transfer_dir, copy)
    (copy / "result.json").write_bytes(content)
    run = weir.open_run(copy)
    assert "result.json: " in repr(run)
    assert "result.json: " in run._repr_html_()
    assert run.analyse().problem is None


def test_a_damaged_table_is_named(transfer_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "damaged"
    shutil.copytree(transfer_dir, copy)
    run = weir.open_run(copy)
    for name in ("flows", "series", "telemetry"):
        (copy / f"{name}.parquet").write_bytes(b"PAR1")
        table = getattr(run, name)
        for use in (len, weir.Table.pandas, weir.Table.head, repr):
            with pytest.raises(RunFileError, match=f"{name}.parquet: .*valid: a whole Parquet file"):
                use(table)


def test_flows_have_their_types_where_nothing_was_lost(run: weir.Run, tmp_path: Path) -> None:
    write_run(tmp_path, drop=())
    analyse(tmp_path)
    lossless = weir.open_run(tmp_path)
    assert lossless.flows.arrow()["precision"].to_pylist() == [None]
    for name in ("flows", "other_flows"):
        tables = [getattr(each, name) for each in (run, lossless)]
        assert tables[0].schema == tables[1].schema
        assert len(pa.concat_tables([table.arrow() for table in tables])) == sum(map(len, tables))


def test_tables_of_two_runs_are_put_together_whatever_is_null_in_one(transfer_dir: Path) -> None:
    run, other = weir.open_run(transfer_dir), weir.open_run(transfer_dir)
    law = dict.fromkeys(Law.model_fields, 0)
    other.__dict__["result"] = run.result.model_copy(
        update={
            "pairs": (PairResult(**PAIR),),
            "links": (LinkResult(host="a", delay_s=0, rate_bps=5, queue_bytes=None, loss=0),),
            "policers": (PolicerResult(**POLICER), PolicerResult(**POLICER | {"conformance": CONFORMANCE})),
            "phases": (PhaseResult(name="a", start_ns=1, duration_s=1, law=Law(**law)),),
        }
    )
    for name in ("phases", "policers", "pairs", "links", "clocks", "host_clocks", "causes"):
        tables = [getattr(each, name) for each in (run, other)]
        assert tables[0].schema == tables[1].schema, name
        assert len(pa.concat_tables([table.arrow() for table in tables])) == sum(map(len, tables))
        assert polars.concat([table.polars() for table in tables]).height == sum(map(len, tables))
    assert other.pairs.columns[:3] == ("phase", "flow1", "flow2")
    assert other.policers.arrow()["conformance_first_burst_passed_bytes"].to_pylist() == [None, 7]
    assert pa.types.is_int64(run.false_inferences.schema.field("sent_ns").type)
