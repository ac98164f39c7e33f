# SPDX-License-Identifier: Apache-2.0
"""The runner: processes, signals, directories. The runs are stand-ins that take some 30 ms."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weir.campaign import runner
from weir.campaign.choice import only
from weir.campaign.errors import CampaignError
from weir.campaign.executors.local import LocalExecutor
from weir.campaign.identity import Software
from weir.campaign.load import Campaign, PlannedRun, parse_campaign
from weir.campaign.others import with_others
from weir.campaign.runner import GIVE_UP_AFTER, Ending, Runner
from weir.campaign.store import Store
from weir.campaign.virtual import with_kernels
from weir.kernel.store import KernelStore, kernels_folder
from weir.rundir.campaign_folder import FAILED, PARTIAL
from weir.rundir.manifest import read_manifest
from weir.rundir.manifest_file import SPARE_NAME
from weir_tests.campaign import stand_in as doubles
from weir_tests.campaign.stand_in import SOFTWARE, stand_in
from weir_tests.kernel.made_up_kernels import add_kernel

TEXT = """
name: many
seed: 3
matrix: {rate: [1 Mbit/s, 2 Mbit/s, 3 Mbit/s]}
repeats: 4
hosts: {client: {}, server: {}}
flows: [{name: one, from: server, to: client, duration: 1 s}]
policers: [{name: p, rate: $rate, burst: 20 kB, match: [{to: client}]}]
"""
FORK = multiprocessing.get_context("fork")


class Events:
    """A watcher that records the events."""

    def __init__(self, on_begin: Callable[[], None] = lambda: None) -> None:
        self.seen: list[tuple[str, str]] = []
        self.running = self.most_running = 0
        self.on_begin = on_begin

    def run_started(self, run: PlannedRun) -> None:
        self.seen.append(("started", run.key))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        self.on_begin()

    def run_finished(self, run: PlannedRun, path: Path, wall_s: float) -> None:
        assert wall_s > 0
        self.seen.append(("finished", run.key))
        self.running -= 1

    def run_failed(self, run: PlannedRun, path: Path, error: str, again: bool) -> None:
        self.seen.append((f"failed: {error}", run.key))
        self.running -= 1

    def stopping(self) -> None:
        self.seen.append(("stopping", ""))

    def tick(self) -> None:
        pass


def work(
    runs: Path,
    text: str = TEXT,
    *,
    jobs: int = 2,
    events: Events | None = None,
    software: Software = SOFTWARE,
) -> Ending:
    with Store(parse_campaign(text), runs, lambda: software) as store:
        return Runner(store, LocalExecutor(jobs, stand_in), events or Events()).run()


def tree(runs: Path) -> dict[str, Any]:
    """Identity and files of each complete run, without times."""
    found = {}
    for path in sorted((runs / "many").glob("*_r*")):
        manifest = json.loads((path / "manifest.json").read_text())
        identity = {
            key: value for key, value in manifest["campaign"].items() if key not in ("wall_s", "jobs")
        }
        files = {p.name: p.read_text() for p in sorted((path / "pcap").iterdir())}
        result = json.loads((path / "result.json").read_text())
        found[path.name] = (identity, manifest["seed"], files, result)
    return found


def marks(runs: Path) -> dict[str, tuple[int, int]]:
    """Inode and modification time of each complete run's manifest; they change if the run is made again."""
    found = {}
    for path in (runs / "many").glob("*_r*"):
        status = (path / "manifest.json").stat()
        found[path.name] = (status.st_ino, status.st_mtime_ns)
    return found


@pytest.fixture(scope="module", name="undisturbed")
def _undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    runs = tmp_path_factory.mktemp("undisturbed")
    assert work(runs, TEXT.replace("repeats: 4", "repeats: 15")) == Ending()
    return tree(runs)


def test_a_campaign_killed_ten_times_at_random_times_ends_with_the_results_of_an_undisturbed_one(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    text = TEXT.replace("repeats: 4", "repeats: 15")
    moments = random.Random(20261121)
    kills, complete = 0, {}
    while kills < 10:
        process = FORK.Process(target=work, args=(tmp_path, text))
        process.start()
        process.join(moments.uniform(0.0, 0.1))
        assert process.is_alive(), f"nothing was left to disturb after {kills} kills"
        process.kill()
        process.join()
        kills += 1
        # Complete runs are not made again.
        now = marks(tmp_path)
        assert complete.items() <= now.items()
        complete = now
    print(f"{len(complete)} of {len(undisturbed)} runs were complete after ten kills")
    assert work(tmp_path, text) == Ending()
    assert complete.items() <= marks(tmp_path).items()
    assert tree(tmp_path) == undisturbed
    assert not list((tmp_path / "many" / PARTIAL).iterdir())
    assert not (tmp_path / "many" / FAILED).exists()


def test_every_file_of_a_complete_run_is_complete(undisturbed: dict[str, Any]) -> None:
    assert len(undisturbed) == 45
    for _, _, files, result in undisturbed.values():
        assert files == {str(step): "first half second half" for step in range(doubles.STEPS)}
        assert result == doubles.RESULT


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_running_runs_and_the_same_call_resumes(
    tmp_path: Path, number: signal.Signals
) -> None:
    events = Events(on_begin=lambda: os.kill(os.getpid(), number) if len(events.seen) == 5 else None)
    ending = work(tmp_path, events=events, jobs=1)
    assert ending.stopped_by == number
    assert events.seen[-1] == ("stopping", "")
    started = sum(what == "started" for what, _ in events.seen)
    assert len(tree(tmp_path)) == started - 1
    assert not list((tmp_path / "many" / PARTIAL).iterdir())
    again = Events()
    assert work(tmp_path, events=again) == Ending()
    assert sum(what == "started" for what, _ in again.seen) == 12 - (started - 1)
    assert len(tree(tmp_path)) == 12


def test_runs_are_bounded_by_jobs_and_one_repeat_of_each_cell_comes_first(tmp_path: Path) -> None:
    events = Events()
    work(tmp_path, jobs=3, events=events)
    # Three have traffic, and as many more may be in analysis (local_test.py).
    assert 3 <= events.most_running <= 6
    started = [key for what, key in events.seen if what == "started"]
    assert [key[-4:] for key in started] == [f"r{repeat:03}" for repeat in (1, 2, 3, 4) for _ in range(3)]


def test_a_failed_run_is_retried_and_its_logs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = parse_campaign(TEXT).runs[4]
    monkeypatch.setenv("FAIL_SEEDS", str(bad.seed))
    monkeypatch.setenv("FAIL_TIMES", "2")
    events = Events()
    assert work(tmp_path, events=events) == Ending()
    seen = [what for what, key in events.seen if key == bad.key]
    failure = "failed: exit code 1; it said: cannot do this one"
    assert seen == ["started", failure, "started", failure, "started", "finished"]
    for number in (1, 2):
        log = tmp_path / "many" / FAILED / f"{bad.key}.{number}" / "logs" / "run.log"
        assert log.read_text() == "cannot do this one\n"
    assert len(tree(tmp_path)) == 12


def test_attempts_are_bounded_also_across_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = parse_campaign(TEXT).runs[0]
    monkeypatch.setenv("FAIL_SEEDS", str(bad.seed))
    assert work(tmp_path).failed == [bad.key]
    assert len(list((tmp_path / "many" / FAILED).iterdir())) == 3
    events = Events()
    assert work(tmp_path, events=events).failed == [bad.key]
    assert events.seen == []
    with Store(parse_campaign(TEXT), tmp_path, lambda: SOFTWARE) as store:
        store.delete_failures([bad.key])
    monkeypatch.delenv("FAIL_SEEDS")
    assert work(tmp_path) == Ending()


def test_runs_set_aside_are_made_again_and_kept_in_invalid(tmp_path: Path) -> None:
    campaign = parse_campaign(TEXT)
    for times in (1, 2):
        assert work(tmp_path) == Ending()
        before = marks(tmp_path)
        with Store(campaign, tmp_path, lambda: SOFTWARE) as store:
            store.set_aside([campaign.runs[1].key])
            assert list(store.done()) == [run.key for run in campaign.runs if run != campaign.runs[1]]
            assert store.unplanned(campaign) == []
        assert work(tmp_path) == Ending()
        after = marks(tmp_path)
        assert [key for key in after if after[key] != before[key]] == [campaign.runs[1].key]
        aside = sorted((tmp_path / "many" / "invalid").iterdir())
        assert [path.name for path in aside] == [f"{campaign.runs[1].key}.{n + 1}" for n in range(times)]
        assert all((path / "result.json").is_file() and not (path / "pcap").exists() for path in aside)


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_campaign_gives_up_after_too_many_failed_runs_in_a_row(
    attempts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIL_SEEDS", ",".join(str(run.seed) for run in parse_campaign(TEXT).runs))
    ending = work(tmp_path, TEXT.replace("repeats: 4", f"repeats: 4\nattempts: {attempts}"), jobs=1)
    assert ending.gave_up
    failures = list((tmp_path / "many" / FAILED).iterdir())
    assert GIVE_UP_AFTER * attempts <= len(failures) <= GIVE_UP_AFTER * attempts + 1  # one was under way
    # Each of the 12 runs is tried before one is tried again.
    assert len(ending.failed) == (len(failures) if attempts == 1 else 0)


def test_a_full_disk_ends_a_campaign_and_uses_up_no_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = "weir: runs/many/.partial/x/result.json: No space left on device"
    monkeypatch.setenv("FAIL_SEEDS", ",".join(str(run.seed) for run in parse_campaign(TEXT).runs[1:]))
    monkeypatch.setenv("FAIL_TEXT", full)
    events = Events()
    ending = work(tmp_path, events=events, jobs=1)
    assert ending.disk_full == f"exit code 1; it said: {full}"
    assert (ending.failed, ending.gave_up, ending.stopped_by) == ([], False, None)
    assert sum(what == "started" for what, _ in events.seen) <= 4  # one measures, another is analysed
    assert not (tmp_path / "many" / FAILED).exists()
    assert not list((tmp_path / "many" / PARTIAL).iterdir())
    complete = marks(tmp_path)
    assert complete
    monkeypatch.delenv("FAIL_SEEDS")
    assert work(tmp_path) == Ending()
    assert complete.items() <= marks(tmp_path).items()
    assert len(tree(tmp_path)) == 12


def test_a_disk_that_is_full_as_a_run_is_prepared_lets_those_that_run_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = runner.prepare

    def prepare(run_dir: Path, *arguments: Any, **options: Any) -> None:
        if len(list(run_dir.parent.iterdir())) == 2:  # while another run is under way
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(run_dir / "config.yaml"))
        prepared(run_dir, *arguments, **options)

    monkeypatch.setattr(runner, "prepare", prepare)
    events = Events()
    ending = work(tmp_path, events=events)
    assert ending.disk_full is not None
    assert ending.disk_full.endswith("/config.yaml: No space left on device")
    assert [what for what, _ in events.seen] == ["started", "finished"]
    monkeypatch.undo()
    assert work(tmp_path) == Ending()
    assert len(tree(tmp_path)) == 12


@pytest.mark.parametrize(
    ("text", "software", "message"),
    [
        (
            TEXT.replace("20 kB", "30 kB"),
            SOFTWARE,
            r"made by another experiment \(policers\[0\].burst is '20 kB', now '30 kB'\)",
        ),
        (
            TEXT.replace("duration: 1 s", "duration: 1 s, pacing: 3 Mbit/s"),
            SOFTWARE,
            r"made by another experiment \(flows\[0\].pacing is missing, now '3 Mbit/s'\)",
        ),
        (TEXT, SOFTWARE.model_copy(update={"commit": "later"}), "made by weir 0, commit commit"),
        (
            TEXT,
            SOFTWARE.model_copy(update={"programs": {"weir-switch": "other"}}),
            "this is weir 0, commit commit",
        ),
    ],
    ids=["another value", "another key", "another commit", "another switch"],
)
def test_results_of_different_configs_and_versions_are_never_mixed(
    tmp_path: Path, text: str, software: Software, message: str
) -> None:
    work(tmp_path)
    before, file = marks(tmp_path), tmp_path / "many" / "campaign.yaml"
    with pytest.raises(
        CampaignError, match=f"{message}.*and so are 11 more runs.*valid: --runs with another directory"
    ):
        work(tmp_path, text, software=software)
    assert marks(tmp_path) == before
    assert file.read_text() == TEXT  # by which weir reads the runs in the folder


def test_results_of_different_kernels_and_memories_are_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    digest = add_kernel(kernels_folder(), "6.12", ("cubic",)).record.inputs_sha256[:12]
    planned = parse_campaign(TEXT + "time: virtual\nkernel: 6.12\n")

    def make(campaign: Campaign) -> Ending:
        with Store(campaign, tmp_path, lambda: SOFTWARE) as store:
            return Runner(store, LocalExecutor(2, stand_in), Events()).run()

    assert make(with_kernels(planned, 512)) == Ending()
    before = marks(tmp_path)
    for path in (tmp_path / "many").glob("*_r*"):
        made = read_manifest(path).virtual_time
        assert made is not None
        assert (made.kernel.name, made.memory_mb) == ("6.12", 512)
    made_on = f"made on the kernel 6.12 \\(inputs {digest}\\) with 512 MB, now on the kernel 6.12"
    with pytest.raises(CampaignError, match=rf"{made_on} \(inputs {digest}\) with 1024 MB,"):
        make(with_kernels(planned, 1024))
    rebuilt = add_kernel(kernels_folder(), "6.12-patched", ("cubic",))
    KernelStore(kernels_folder()).give_name(rebuilt, "6.12")
    newer = rebuilt.record.inputs_sha256[:12]
    with pytest.raises(CampaignError, match=rf"{made_on} \(inputs {newer}\) with 512 MB"):
        make(with_kernels(planned, 512))
    assert marks(tmp_path) == before


def test_a_changed_matrix_keeps_existing_runs_and_lists_those_no_longer_planned(tmp_path: Path) -> None:
    work(tmp_path)
    before = marks(tmp_path)
    assert work(tmp_path, TEXT.replace("[1 Mbit/s, 2 Mbit/s, 3", "[2 Mbit/s, 4 Mbit/s, 3")) == Ending()
    assert len(tree(tmp_path)) == 16
    assert before.items() <= marks(tmp_path).items()
    with Store(parse_campaign(TEXT), tmp_path, lambda: SOFTWARE) as store:
        assert len(store.done()) == 12
        assert [name[:8] for name in store.unplanned(store.campaign)] == ["4-Mbit-s"] * 4


def test_the_page_of_a_part_has_the_other_complete_runs_of_its_grid(tmp_path: Path) -> None:
    grid = parse_campaign(TEXT)
    work(tmp_path)
    part = only(grid, ["rate=2 Mbit/s"])
    other = next(run for run in grid.runs if run not in part.runs)

    def on_page() -> tuple[tuple[PlannedRun, ...], str]:
        with Store(part, tmp_path, lambda: SOFTWARE) as store:
            shown, not_shown = with_others(store, grid, part, 512)
        return shown.runs, not_shown

    assert on_page() == (grid.runs, "")
    shutil.rmtree(tmp_path / "many" / other.key)
    assert on_page() == (tuple(run for run in grid.runs if run != other), "")
    manifest = tmp_path / "many" / grid.runs[-1].key / "manifest.json"
    made = json.loads(manifest.read_text())
    made["campaign"]["software"]["commit"] = "earlier"
    manifest.write_text(json.dumps(made))
    shown, not_shown = on_page()
    assert shown == tuple(run for run in grid.runs[:-1] if run != other)
    assert not_shown.startswith(
        f"not on the page: 1 other run of the grid, first {grid.runs[-1].key}: made by"
    )


def test_software_that_changes_during_a_campaign_ends_it(tmp_path: Path) -> None:
    versions = [SOFTWARE] * 4

    def current() -> Software:
        return versions.pop() if versions else SOFTWARE.model_copy(update={"commit": "later"})

    with (
        Store(parse_campaign(TEXT), tmp_path, current) as store,
        pytest.raises(CampaignError, match="the software changed during the campaign"),
    ):
        Runner(store, LocalExecutor(1, stand_in), Events()).run()
    assert len(tree(tmp_path)) == 3


def test_two_campaigns_cannot_run_in_one_folder(tmp_path: Path) -> None:
    with (
        Store(parse_campaign(TEXT), tmp_path, lambda: SOFTWARE),
        pytest.raises(CampaignError, match="another `weir campaign` is running in it"),
    ):
        work(tmp_path)


def test_the_lock_of_a_killed_campaign_is_waited_for(tmp_path: Path) -> None:
    ended = Store(parse_campaign(TEXT), tmp_path, lambda: SOFTWARE)
    ended.__enter__()
    # As by the child of a killed campaign, between its fork and its exec.
    release = threading.Timer(0.3, ended.__exit__, (None, None, None))
    release.start()
    with Store(parse_campaign(TEXT), tmp_path, lambda: SOFTWARE):
        release.join()


def test_a_complete_run_keeps_no_space_reserved_for_its_manifest(tmp_path: Path) -> None:
    assert work(tmp_path) == Ending()
    assert len(tree(tmp_path)) == 12
    assert list(tmp_path.rglob(SPARE_NAME)) == []


def test_captures_are_deleted_with_keep_results(tmp_path: Path) -> None:
    work(tmp_path, TEXT.replace("repeats: 4", "repeats: 1\nkeep: results"))
    wholes = list((tmp_path / "many").glob("*_r*"))
    assert len(wholes) == 3
    assert not [path for path in wholes if (path / "pcap").exists()]
    assert all((path / "result.json").is_file() for path in wholes)


def test_the_next_start_waits_until_a_killed_run_has_ended(tmp_path: Path) -> None:
    with Store(parse_campaign(TEXT), tmp_path, lambda: SOFTWARE) as store:
        partial = store.begin(store.campaign.runs[0])
    # A process that holds the directory's lock, as the sandbox of a killed run does until it exits.
    held, release = FORK.Event(), FORK.Event()

    def hold() -> None:
        from weir.rundir.directory import hold as hold_directory

        hold_directory(partial)
        held.set()
        release.wait(30)

    holder = FORK.Process(target=hold)
    holder.start()
    assert held.wait(30)
    started = time.monotonic()
    starter = FORK.Process(target=work, args=(tmp_path,))
    starter.start()
    starter.join(0.3)
    assert starter.is_alive()
    assert partial.is_dir()
    assert tree(tmp_path) == {}
    release.set()
    holder.join()
    starter.join(60)
    print(f"continued after {time.monotonic() - started:.2f} s")
    assert starter.exitcode == 0
    assert len(tree(tmp_path)) == 12
