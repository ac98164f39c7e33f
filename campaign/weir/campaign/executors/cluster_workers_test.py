# SPDX-License-Identifier: Apache-2.0
"""The executor's dealings with its workers, by a stand-in for dask's client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import pytest

from weir.campaign.errors import CampaignError
from weir.campaign.executors import cluster, worker
from weir.campaign.executors.cluster import ClusterExecutor, Note
from weir.campaign.executors.worker import FinishedRun, WorkerInfo
from weir.campaign.load import parse_campaign
from weir.rundir.manifest import Software
from weir_tests.campaign.stand_in import SOFTWARE

TEXT = """
name: two
matrix: {what: [first, second]}
variables: {}
hosts: {a: {}, b: {}}
flows: [{name: $what, from: a, to: b, duration: 1 s}]
"""
OTHER = Software(weir_version="0", commit="later", programs={})


class Workers:
    """The client of a scheduler whose workers have the software of `workers`."""

    status = "running"

    def __init__(self, **workers: Software) -> None:
        self.workers = workers
        self.beating: list[str] = []
        self.beat = threading.Event()

    def scheduler_info(self, n_workers: int = 0) -> dict[str, Any]:
        return {"address": "tcp://scheduler", "workers": {address: {} for address in self.workers}}

    def submit(self, *_arguments: Any, **_options: Any) -> Future[Any]:
        return Future()

    def run(
        self, function: Callable[..., Any], *_arguments: Any, workers: Iterable[str], on_error: str = "raise"
    ) -> dict[str, Any]:
        if self.status == "closed":
            raise OSError("the client is closed")
        if function is worker.heartbeat:
            self.beating = list(workers)
            self.beat.set()
        if function is worker.read_part:
            self.beat.clear()
            assert self.beat.wait(60), "no heartbeat while a run is fetched"
            return dict.fromkeys(workers, b"abc")
        return {address: WorkerInfo("host", self.workers[address], 0.0) for address in workers}


def executor_of(client: Workers, note: Note = lambda _text: None) -> ClusterExecutor:
    return ClusterExecutor(cast("Any", client), SOFTWARE, keep_raw=True, note=note, command=lambda _dir: [])


def test_other_runs_get_heartbeats_while_a_run_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "HEARTBEAT_S", 0.01)
    client = Workers(one=SOFTWARE, two=SOFTWARE)
    executor = executor_of(client)
    assert executor.is_free()
    for run in parse_campaign(TEXT).runs[:2]:
        executor.start(run, tmp_path)
    executor.remove("one")
    executor.fetch("one", FinishedRun(None, "run.zip", 3), tmp_path / "packed")
    assert client.beating == ["two"]
    executor.remove("two")


def test_the_thread_of_heartbeats_ends_with_the_last_run_and_with_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def thread() -> threading.Thread | None:
        return next((one for one in threading.enumerate() if one.name == "heartbeats"), None)

    monkeypatch.setattr(cluster, "HEARTBEAT_S", 0.01)
    client = Workers(one=SOFTWARE)
    executor = executor_of(client)
    assert executor.is_free()
    run = parse_campaign(TEXT).runs[0]
    executor.start(run, tmp_path)
    sending = thread()
    assert sending is not None
    executor.remove("one")
    sending.join(60)
    assert not sending.is_alive()

    executor.start(run, tmp_path)
    sending = thread()
    assert sending is not None
    client.status = "closed"
    sending.join(60)
    assert not sending.is_alive()


def test_a_campaign_waits_for_its_only_usable_worker_to_be_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Workers(good=SOFTWARE, old=OTHER)
    executor = executor_of(client)
    assert executor.is_free()
    client.workers = {"old": OTHER}
    assert not executor.is_free()
    client.workers = {"old": OTHER, "restarted": SOFTWARE}
    assert executor.is_free()
    client.workers = {"old": OTHER}
    monkeypatch.setattr(cluster, "WITHOUT_WORKERS_S", -1.0)
    with pytest.raises(CampaignError, match="worker old on host has weir 0, commit later"):
        executor.is_free()


def test_a_campaign_whose_workers_were_all_refused_ends_at_once() -> None:
    notes: list[str] = []
    with pytest.raises(CampaignError, match="worker old on host has weir 0, commit later"):
        executor_of(Workers(old=OTHER), notes.append).is_free()
    assert len(notes) == 1
