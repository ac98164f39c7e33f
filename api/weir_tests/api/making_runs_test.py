# SPDX-License-Identifier: Apache-2.0
"""Runs made from Python with real traffic; stopped and failed ones are errors that name their directory."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import weir
from weir.api import make
from weir.controlplane.given import read_given
from weir.topo.sandbox import sandbox_problem

pytestmark = pytest.mark.skipif(sandbox_problem() is not None, reason=f"kernel: {sandbox_problem()}")


def experiment(duration: str = "4 s", **flow: Any) -> dict[str, Any]:
    return {
        "name": "from-python",
        "hosts": {"client": {"delay": "10 ms"}, "server": {"delay": "10 ms"}},
        "flows": [
            {"name": "one", "from": "server", "to": "client", "duration": duration, "measured": True} | flow,
        ],
        "phases": [
            {
                "name": "main",
                "policers": [
                    {"name": "slow", "rate": "5 Mbit/s", "burst": "20 ms", "match": [{"to": "client"}]}
                ],
            }
        ],
    }


def test_a_run_of_a_mapping_is_opened_and_explained_inside_an_event_loop_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def cell() -> weir.Run:
        return weir.run(experiment(), runs=tmp_path, progress=True)

    run = asyncio.run(cell())
    assert run.path == (tmp_path / "from-python" / "latest").resolve()
    assert (run.complete, run.problem, run.unexplained) == (True, None, 0)
    (flow,) = run.flows.arrow().to_pylist()
    assert flow["sent"] > flow["received"] > 0
    assert flow["reported_drops"] == len(run.telemetry) > 10
    # The inference from one host's capture is that of the joined run.
    assert run.losses.arrow()["flow"].to_pylist() == ["main/one"] * flow["inferred_lost"]
    assert sum(run.packets.arrow()["dropped"].to_pylist()) == len(run.telemetry)
    assert len(run.sockets) > 10
    captured = capfd.readouterr()
    assert captured.out == ""
    steps = [line.removeprefix("from-python: ") for line in captured.err.splitlines()]
    assert steps[0] == str(run.path)
    assert "phase main: flows for 4 s" in steps
    assert steps[-2:] == ["analysing", f"{run.path}: {run.result.headline}"]
    assert run.report.stat().st_size > 1_000_000


def test_an_interrupt_stops_the_run_and_names_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(text: str) -> None:
        if "flows for" in text:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(make, "shower", lambda _wanted: interrupt)
    with pytest.raises(weir.RunInterrupted, match="stopped early") as error:
        weir.run(experiment("60 s"), runs=tmp_path)
    assert isinstance(error.value, KeyboardInterrupt)
    run = weir.open_run(error.value.path)
    assert (run.complete, run.manifest.state) == (False, "interrupted")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_exception_while_progress_is_shown_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(text: str) -> None:
        if "flows for" in text:
            raise ValueError("the display is gone")

    monkeypatch.setattr(make, "shower", lambda _wanted: broken)
    with pytest.raises(ValueError, match="the display is gone"):
        weir.run(experiment("60 s"), runs=tmp_path)
    assert weir.open_run(tmp_path / "from-python" / "latest").manifest.state == "interrupted"


def test_a_run_that_fails_is_an_error_with_directory_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # tcpdump ends at once, as it does where a security policy forbids captures.
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "tcpdump").write_text("#!/bin/sh\necho not allowed here >&2\nexit 1\n")
    (tools / "tcpdump").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    with pytest.raises(weir.RunFailedError, match="not allowed here") as error:
        weir.run(experiment(), runs=tmp_path / "runs")
    assert str(error.value.path) in str(error.value)
    run = weir.open_run(error.value.path)
    assert run.problem == f"the run failed: {error.value.reason}"


def test_a_run_from_another_thread_needs_no_signals(tmp_path: Path) -> None:
    made: list[weir.Run] = []
    thread = threading.Thread(target=lambda: made.append(weir.run(experiment("1 s"), runs=tmp_path)))
    thread.start()
    thread.join(120)
    assert [run.complete for run in made] == [True]


def test_a_mistake_is_named_with_its_key_and_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(weir.ConfigError, match=r"flows\[0\]\.from: no host 'nobody'; valid: client, server"):
        weir.run(experiment(**{"from": "nobody"}), runs=tmp_path)
    with pytest.raises(weir.ConfigError, match="cannot represent an object"):
        weir.run(experiment(name=object()), runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_a_shipped_experiment_is_its_file() -> None:
    text, path = read_given("demo")
    assert (path.name, text) == ("demo.yaml", path.read_text())
    with pytest.raises(weir.ConfigError, match="nonesuch"):
        weir.run("nonesuch")
