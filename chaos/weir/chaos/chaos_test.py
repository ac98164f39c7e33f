# SPDX-License-Identifier: Apache-2.0
import json
import os
import random
import subprocess
import sys

import pytest

from weir.chaos.faults import FAULTS, Surroundings, cut_link, kill, stop, with_links
from weir.chaos.judge import fault_of_program, judge_run
from weir.chaos.processes import MARKER, Process, processes_of, role_of, wait_for_none
from weir.chaos.table import table_of
from weir.chaos.trial import planned
from weir_tests.cli.processes import wait_until

LENGTHS_S = {"run": 8.0, "campaign": 30.0}


def test_a_trial_follows_from_seed_and_number_and_all_faults_come():
    first = [planned(1, number, LENGTHS_S) for number in range(200)]
    assert first == [planned(1, number, LENGTHS_S) for number in range(200)]
    assert first != [planned(2, number, LENGTHS_S) for number in range(200)]
    assert {trial.fault for trial in first} == set(FAULTS)
    assert {trial.subject for trial in first} == {"run", "campaign"}
    assert all(0 < trial.at_s <= LENGTHS_S[trial.subject] for trial in first)


SANDBOX = ["/x/python", "-c", "from weir.topo.sandbox_init import main; main()"]


@pytest.mark.parametrize(
    ("words", "ids", "role"),
    [
        (["/x/weir-switch", "--port", "1=a"], ["7"], "weir-switch"),
        (["/x/python", "/x/weir", "run", "a.yaml"], ["7"], "weir run"),
        (SANDBOX, ["7", "1"], "sandbox's process 1"),
        (SANDBOX, ["7", "2"], "runner"),
        (["/x/python3.11", "-c", "from weir.topo.draining import run; run()"], ["7", "9"], "topo.draining"),
    ],
)  # fmt: skip
def test_processes_are_named_by_what_they_do(words: list[str], ids: list[str], role: str):
    assert role_of(words, ids) == role


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        ("  analysing\nweir: the run is not complete\n", ""),
        ("Traceback (recent last):\n  …\nOSError: no\n", "Traceback (recent last): … OSError: no"),
        ("weir: internal error: OverflowError: inf\n", "weir: internal error: OverflowError: inf"),
        ("a.py:3: RuntimeWarning: not a number\n  a - b\n", "a.py:3: RuntimeWarning: not a number …   a - b"),
    ],
)  # fmt: skip
def test_what_tells_of_a_fault_of_the_program(output: str, fault: str):
    assert fault_of_program(output) == fault


def the_process_of(trial: str) -> Process:
    """The one process of a trial that was just started: its environment does not show at once."""
    wait_until(lambda: bool(processes_of(trial)), 5, lambda: f"no process of {trial}")
    (process,) = processes_of(trial)
    return process


def test_a_process_is_found_by_its_trial_and_killed():
    trial = f"test-{os.getpid()}"
    sleeper = subprocess.Popen(["sleep", "60"], env={**os.environ, MARKER: trial})
    try:
        found = the_process_of(trial)
        assert (found.role, found.pid) == ("sleep", sleeper.pid)
        assert wait_for_none(trial, 0.2) == [found]
        kill(found, None)
        sleeper.wait(10)
        assert wait_for_none(trial, 5) == []
    finally:
        sleeper.kill()


def test_no_link_of_the_machine_is_cut():
    trial = f"test-cut-{os.getpid()}"
    sleeper = subprocess.Popen(["sleep", "60"], env={**os.environ, MARKER: trial})
    try:
        found = the_process_of(trial)
        assert with_links([found]) == []
        assert "nothing to cut: no link of the trial" in cut_link(found, None)
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_process_with_a_link_of_its_own_is_picked_and_the_link_is_cut(tmp_path):
    trial, ready = f"test-links-{os.getpid()}", tmp_path / "ready"
    make_link = f"ip link add one type veth peer two && ip link set one up && touch {ready} && exec sleep 60"
    environment = {**os.environ, MARKER: trial, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    started = [
        subprocess.Popen(["sleep", "60"], env=environment),
        subprocess.Popen(["unshare", "-Urn", "sh", "-c", make_link], env=environment),
    ]
    try:
        wait_until(ready.exists, 10, lambda: "no link was made")
        there = processes_of(trial)
        assert [process.pid for process in there] != [started[1].pid]
        (found,) = with_links(there)
        assert found.pid == started[1].pid
        assert cut_link(found, Surroundings(tmp_path, random.Random(1))).startswith(("one down", "two down"))
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_stopped_process_continues(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weir.chaos.faults.STOPPED_S", 0.3)
    trial = f"test-stop-{os.getpid()}"
    command = [sys.executable, "-c", "import sys; print(sys.stdin.readline(), end='')"]
    asked = subprocess.Popen(
        command, env={**os.environ, MARKER: trial}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    found = the_process_of(trial)
    assert stop(found, None) == "stopped for 0.3 s"
    assert asked.communicate("still here\n", timeout=20)[0] == "still here\n"


def test_a_valid_run_with_a_packet_too_few_or_a_broken_file_is_found(tmp_path):
    flow = {"id": "a", "sent": 10, "received": 7, "reported_drops": 2, "reports_lost": 0, "in_flight": 0}
    flow |= {"emulated_losses": 0, "unexplained": 0}
    (tmp_path / "manifest.json").write_text('{"state": "complete"}')
    result = tmp_path / "result.json"

    def said(**changes: object) -> tuple[str, ...]:
        content = {"valid": True, "complete": True, "invalid_reasons": [], "flows": [flow | changes]}
        result.write_text(json.dumps(content))
        return judge_run(tmp_path, tmp_path / "weir", ended_well=True).wrong

    assert said(reported_drops=3) == ()
    assert "do not balance" in said(reported_drops=2)[0]
    assert "do not balance" in said(reported_drops=2, unexplained=1)[0]
    (tmp_path / "telemetry.parquet").write_text("PAR1 and no more")
    assert "telemetry.parquet is not whole" in said(reported_drops=3)[0]


def test_the_table_counts_like_outcomes_together_and_names_what_is_wrong():
    common = {"subject": "run", "fault": "kill", "role": "tcpdump", "did": "killed", "wrong": []}
    trials = [
        {**common, "number": 1, "said": "failed, invalid: 17: /tmp/weir-chaos-a_1/log\nfull"},
        {**common, "number": 2, "said": "failed, invalid: 4: /tmp/weir-chaos-z9/log\nfull"},
        {**common, "number": 3, "said": "whole", "wrong": ["left running: iperf3"]},
    ]
    text = table_of(trials)
    assert "3 trials, 1 with something wrong." in text
    assert "| run | kill | tcpdump | 3 | 2 × failed, invalid: N: DIR/log full; 1 × WRONG (whole) |" in text
    assert "- 3, kill, tcpdump: left running: iperf3" in text
