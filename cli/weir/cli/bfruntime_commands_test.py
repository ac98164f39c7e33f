# SPDX-License-Identifier: Apache-2.0
"""The commands for running switches, on the BfRuntime server of the tests in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from weir.cli.main import run_cli
from weir_tests.controlplane.bfrt_files import compiler_output

EXPERIMENT = """\
name: chip
switch: {target: tofino, address: ADDRESS, port_settings: {a: {speed: 100 Gbit/s, fec: reed_solomon}}}
hosts: {a: {port: 132}, b: {port: 140, rate: 1 Gbit/s}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
policers: [{name: p, rate: 1 Gbit/s, burst: 1 MB, match: [{from: a}]}]
"""
START = "from weir.cli.main import main; main()"


class Server:
    """The server's process; it ends when its standard input is closed."""

    def __init__(self, program: str, port: int = 0) -> None:
        command = [sys.executable, "-m", "weir_tests.controlplane.bfruntime_server", program, str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = f"bfruntime://{self._process.stdout.readline().strip()}"

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def serving(program: str) -> Iterator[Server]:
    server = Server(program)
    try:
        yield server
    finally:
        server.stop()


def file_for(tmp_path: Path, server: Server, text: str = EXPERIMENT) -> str:
    path = tmp_path / "chip.yaml"
    path.write_text(text.replace("ADDRESS", server.address))
    return str(path)


def answer_of(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code = run_cli([*words, "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out)


def test_plan_apply_and_status_work_on_an_address_of_bfruntime(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving("tofino1") as server:
        file = file_for(tmp_path, server)
        plan = answer_of(capsys, "plan", file)
        assert (plan["pipeline_loaded"], plan["device_id"]) == (True, 0)
        assert plan["switch"] == server.address.removeprefix("bfruntime://")
        assert any("weir does not set rate over BfRuntime" in note for note in plan["notes"])
        first = answer_of(capsys, "apply", file)
        assert first["changes"] == plan["changes"] > 5
        (port,) = [one for one in first["insert"] if one["entity"] == "settings of port 132"]
        assert (port["speed"], port["fec"], port["enabled"]) == ("100 Gbit/s", "reed_solomon", "yes")
        assert answer_of(capsys, "apply", file)["changes"] == 0
        faster = file_for(
            tmp_path, server, EXPERIMENT.replace("rate: 1 Gbit/s, burst", "rate: 2 Gbit/s, burst")
        )
        changed = answer_of(capsys, "apply", faster)
        assert [one["entity"] for one in changed["modify"]] == ["meter policer cell 1"]
        assert changed["changes"] == 1
        status = answer_of(capsys, "status", faster)
        assert status["as_planned"] is True
        assert status["policers"][0]["read_back"]["cir"] == pytest.approx(250_000_000, rel=0.005)


def test_the_experiment_of_the_documentation_is_applied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "bfruntime.md").read_text()
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    with serving("tofino1") as server:
        file = file_for(tmp_path, server, text.replace("bfruntime://192.0.2.1", "ADDRESS"))
        inserted = answer_of(capsys, "apply", file)["insert"]
        assert [one["entity"] for one in inserted if one["entity"].startswith("settings")] == [
            "settings of port 132",
            "settings of port 140",
        ]
        assert answer_of(capsys, "apply", file)["changes"] == 0


def test_the_program_is_loaded_from_the_compilers_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = str(compiler_output(tmp_path / "out"))
    with serving("none") as server:
        file = file_for(tmp_path, server)
        assert run_cli(["apply", file]) == 6
        assert "no program to load; valid: --compiled" in capsys.readouterr().err
        assert answer_of(capsys, "plan", file, "--compiled", compiled)["pipeline_loaded"] is False
        assert answer_of(capsys, "apply", file, "--compiled", compiled)["pipeline_pushed"] is True
        assert answer_of(capsys, "plan", file)["changes"] == 0


def test_a_switch_that_nobody_serves_and_tls_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving("tofino1") as server:
        file = file_for(tmp_path, server)
        authority = tmp_path / "ca.pem"
        authority.touch()
        assert run_cli(["plan", file, "--tls-ca", str(authority)]) == 2
        assert "a bf_switchd has no TLS" in capsys.readouterr().err
        assert run_cli(["plan", file, "--device-id", "3"]) == 4
    assert run_cli(["plan", file]) == 3
    assert run_cli(["plan", file, "--switch", "bfruntime://:70000"]) == 2
    assert "is not the address of a bf_switchd" in capsys.readouterr().err
    Path(file).write_text(EXPERIMENT.replace("tofino, address: ADDRESS", "bmv2"))
    assert run_cli(["plan", file]) == 2
    assert "bmv2 has no such settings; valid: leave it out, or target: tofino" in capsys.readouterr().err


def test_watch_configures_a_switch_again_that_was_restarted(tmp_path: Path) -> None:
    with serving("tofino1") as server:
        command = [sys.executable, "-c", START, "watch", file_for(tmp_path, server), "--json"]
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        again = None
        try:
            assert watch.stdout is not None
            kinds, updates = [], []
            for line in watch.stdout:
                event = json.loads(line)
                kinds.append(event["event"])
                if event["event"] == "configured":
                    updates.append(event["updates"])
                    if again is not None:
                        break
                    server.stop()
                elif event["event"] == "lost":
                    again = Server("tofino1", server.port)
            assert kinds == ["primary", "configured", "lost", "primary", "configured"]
            assert updates[0] == updates[1] > 5
        finally:
            watch.kill()
            watch.communicate()
            if again is not None:
                again.stop()


def test_doctor_checks_a_switch_before_anything_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("tofino1") as server:
        words = ["doctor", "--target", "tofino", "--address", server.address]
        found = answer_of(capsys, *words)
        checks = {one["name"]: one for one in found["checks"]}
        assert found["ok"]
        assert all(one["ok"] for name, one in checks.items() if name != "ports")
        assert checks["program"]["found"] == "tofino1: weir's, with 16,384 cells of policer"
        assert checks["ports"]["found"] == "none was added"
        assert run_cli(["doctor", "--target", "tofino2", "--address", server.address]) == 1
        assert "--target tofino" in capsys.readouterr().out
    assert run_cli(words) == 1
    assert "no BfRuntime at" in capsys.readouterr().out.replace("\n", " ")
    assert run_cli(["doctor", "--target", "bmv2", "--address", server.address]) == 2
    assert run_cli(["doctor", "--target", "tofino", "--address", "127.0.0.1:9559"]) == 2
    assert "valid: such as bfruntime://192.0.2.1" in capsys.readouterr().err


def test_doctor_says_what_to_load_onto_a_switch_that_runs_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving("none") as server:
        assert run_cli(["doctor", "--target", "tofino", "--address", server.address]) == 0
    said = capsys.readouterr().out
    assert "none runs" in said
    assert "--load-pipeline" in said
