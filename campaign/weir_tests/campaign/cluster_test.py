# SPDX-License-Identifier: Apache-2.0
"""A real scheduler and two real workers on this machine; the runs are stand-ins that take some 30 ms."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from weir.campaign.errors import CampaignError
from weir.campaign.executors.cluster import ClusterExecutor, GuestNeeds, connect
from weir.campaign.executors.local import LocalExecutor
from weir.campaign.load import parse_campaign
from weir.campaign.runner import Ending, Runner
from weir.campaign.store import Store
from weir.campaign.virtual import kernel_digests, with_kernels
from weir.kernel.store import kernels_folder
from weir.rundir.campaign_folder import FAILED, PARTIAL
from weir.rundir.manifest import read_manifest
from weir_tests.campaign import stand_in as doubles
from weir_tests.campaign.runner_test import TEXT, Events, marks, tree
from weir_tests.campaign.stand_in import SOFTWARE, stand_in
from weir_tests.cli.processes import wait_until
from weir_tests.kernel.made_up_kernels import add_kernel, digest_of

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module", name="cluster")
def _cluster() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=40
    ) as cluster:
        yield cluster


@pytest.fixture(name="client")
def _client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster.scheduler_address) as client:
        yield client


def work(
    runs: Path, client: Client, text: str = TEXT, events: Events | None = None, **options: Any
) -> Ending:
    with Store(parse_campaign(text), runs, lambda: SOFTWARE) as store:
        keep_raw = store.campaign.keep == "all"
        options = {"describe": doubles.describe_alike, "note": lambda _text: None} | options
        executor = ClusterExecutor(client, SOFTWARE, keep_raw=keep_raw, command=stand_in, **options)
        return Runner(store, executor, events or Events()).run()


def test_two_workers_make_the_same_runs_as_one_machine_each_one_at_a_time(
    tmp_path: Path, client: Client
) -> None:
    with Store(parse_campaign(TEXT), tmp_path / "alone", lambda: SOFTWARE) as store:
        Runner(store, LocalExecutor(2, stand_in), Events()).run()
    events = Events()
    assert work(tmp_path / "many", client, events=events) == Ending()
    assert tree(tmp_path / "many") == tree(tmp_path / "alone")
    assert len(tree(tmp_path / "many")) == 12
    assert events.most_running == 2
    left = client.run(doubles.folders_left)
    assert list(left.values()) == [0, 0]


def test_a_failed_run_is_returned_with_its_logs_and_retried(tmp_path: Path, cluster: LocalCluster) -> None:
    bad = parse_campaign(TEXT).runs[4]
    with connect(cluster.scheduler_address) as client:
        client.run(doubles.set_environment, "FAIL_SEEDS", str(bad.seed))
        events = Events()
        ending = work(tmp_path, client, events=events)
        client.run(doubles.set_environment, "FAIL_SEEDS", "")
    assert ending.failed == [bad.key]
    seen = [what for what, key in events.seen if key == bad.key]
    assert all("exit code 1; it said: cannot do this one" in what for what in seen[1::2])
    assert len(seen) == 6
    for number in (1, 2, 3):
        log = tmp_path / "many" / FAILED / f"{bad.key}.{number}" / "logs" / "run.log"
        assert log.read_text() == "cannot do this one\n"
    assert len(tree(tmp_path)) == 11


def test_a_stopped_campaign_is_resumed_by_the_same_call(tmp_path: Path, client: Client) -> None:
    events = Events(on_begin=lambda: os.kill(os.getpid(), signal.SIGINT) if len(events.seen) > 5 else None)
    assert work(tmp_path, client, events=events).stopped_by == signal.SIGINT
    before = marks(tmp_path)
    assert 0 < len(before) < 12
    assert not list((tmp_path / "many" / PARTIAL).iterdir())
    assert work(tmp_path, client) == Ending()
    assert before.items() <= marks(tmp_path).items()
    assert len(tree(tmp_path)) == 12


def test_a_killed_campaign_ends_with_the_results_of_an_undisturbed_one(
    tmp_path: Path, cluster: LocalCluster, client: Client
) -> None:
    text = TEXT.replace("repeats: 4", "repeats: 8")
    runs = tmp_path / "killed"
    arguments = (cluster.scheduler_address, runs, text)
    process = SPAWN.Process(target=doubles.campaign_of_workers, args=arguments)
    process.start()
    wait_until(lambda: len(marks(runs)) >= 5 or not process.is_alive(), 60, lambda: str(marks(runs)))
    assert process.is_alive(), "nothing was left to disturb"
    process.kill()
    process.join()
    # Complete runs are not made again.
    complete = marks(runs)
    assert work(runs, client, text) == Ending()
    assert complete.items() <= marks(runs).items()
    with Store(parse_campaign(text), tmp_path / "alone", lambda: SOFTWARE) as store:
        Runner(store, LocalExecutor(2, stand_in), Events()).run()
    assert tree(runs) == tree(tmp_path / "alone")
    assert len(tree(runs)) == 24
    assert not list((runs / "many" / PARTIAL).iterdir())


def test_workers_return_no_captures_with_keep_results(tmp_path: Path, client: Client) -> None:
    work(tmp_path, client, TEXT.replace("repeats: 4", "repeats: 1\nkeep: results"))
    wholes = list((tmp_path / "many").glob("*_r*"))
    assert len(wholes) == 3
    assert not [path for path in wholes if (path / "pcap").exists()]


def test_workers_of_other_software_are_not_used(tmp_path: Path, client: Client) -> None:
    notes: list[str] = []
    with pytest.raises(
        CampaignError, match=r"on there has weir 0, commit later .*, this is weir 0, commit commit"
    ):
        work(tmp_path, client, describe=doubles.describe_other, note=notes.append)
    assert len(notes) == 2
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        (
            GuestNeeds({digest_of("gain"): "gain", digest_of("6.12"): "6.12"}, 500),
            r"on here has no kernel 'gain' \(inputs 6761696e0000\); valid: `weir kernel build` there",
        ),
        (
            GuestNeeds({digest_of("6.12"): "6.12"}, 1324),
            "on here has 1,000 MB of memory available, and a run needs 1,324 MB",
        ),
    ],
)
def test_workers_without_the_kernels_or_the_memory_of_guests_are_not_used(
    tmp_path: Path, client: Client, needs: GuestNeeds, why: str
) -> None:
    notes: list[str] = []
    with pytest.raises(CampaignError, match=why):
        work(tmp_path, client, describe=doubles.describe_with_kernel, note=notes.append, needs=needs)
    assert len(notes) == 2
    assert tree(tmp_path) == {}


def test_workers_make_runs_in_virtual_time_on_the_campaigns_kernel(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    add_kernel(kernels_folder(), "6.12", ("cubic",))
    campaign = with_kernels(parse_campaign(TEXT + "time: virtual\n"), 512)
    notes: list[str] = []
    with Store(campaign, tmp_path, lambda: SOFTWARE) as store:
        executor = ClusterExecutor(
            client,
            SOFTWARE,
            keep_raw=True,
            note=notes.append,
            command=stand_in,
            describe=doubles.describe_with_kernel,
            needs=GuestNeeds(kernel_digests(campaign), 512),
        )
        assert Runner(store, executor, Events()).run() == Ending()
        done = store.done()
    assert notes == [], "a busy machine does not disturb virtual time"
    assert len(done) == 12
    for path in done.values():
        made = read_manifest(path).virtual_time
        assert made is not None
        assert (made.kernel.inputs_sha256, made.memory_mb) == (digest_of("6.12"), 512)


def test_an_address_without_a_scheduler_is_bad_input() -> None:
    with pytest.raises(CampaignError, match="valid: the address that `dask scheduler` prints"):
        connect("nonsense://")


def test_a_run_whose_worker_dies_is_made_by_another_one(tmp_path: Path, client: Client) -> None:
    (pid, _) = client.run(os.getpid).values()
    events = Events(on_begin=lambda: os.kill(pid, signal.SIGKILL) if len(events.seen) == 2 else None)
    assert work(tmp_path, client, events=events) == Ending()
    assert any("disconnected" in what for what, _ in events.seen)
    assert len(tree(tmp_path)) == 12
