# SPDX-License-Identifier: Apache-2.0
"""What `switch_commands_test.py` runs in a sandbox: the commands for running switches, on weir-switch.

    a ── port 1 ┐
    b ── port 2 ┼── weir-switch
    (port 3: where the collector would be)

What was said and seen goes to `result.json` in the folder that the command line names.
"""

from __future__ import annotations

import io
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from weir.cli.main import run_cli
from weir.controlplane.attach import HostPort, host_mac
from weir.controlplane.scenario import frame, wire
from weir.topo.process import LoggedProcess, run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess

EXPERIMENT = """\
name: scenario
hosts: {{a: {{}}, b: {{}}}}
flows: [{{name: f, from: a, to: b, duration: 1 s}}]
policers: [{policers}]
"""
TWO = (
    "{name: one, rate: 8 kbit/s, burst: 20 kB, match: [{from: a}]}, "
    "{name: other, rate: 8 kbit/s, burst: 20 kB, match: [{from: b}]}"
)
LEARNED = (
    "{name: each, rate: 8 kbit/s, burst: 20 kB, mode: per_flow_learned, cells: 4, flows: 2, idle: 1 s, "
    "match: [{from: a}]}"
)
FRAMES = 50
PORTS = (1, 2, 3)
HOSTS = {
    name: HostPort(port, host_mac(f"10.0.0.{port}"), f"10.0.0.{port}") for port, name in enumerate("ab", 1)
}
NOBODY = "127.0.0.1:9"
_PATIENCE_S = 60.0


class Scenario:
    """A switch that can be killed, commands, and what they said."""

    def __init__(self, folder: Path) -> None:
        """Make the links."""
        run_tool("ip", "link", "set", "lo", "up")
        self.folder = folder
        self.ends = {port: wire(port) for port in PORTS}
        self.result: dict[str, Any] = {}
        self._switches = 0

    def switch(self) -> SwitchProcess:
        """A new weir-switch on the links, ready."""
        self._switches += 1
        folder = self.folder / f"switch{self._switches}"
        switch = SwitchProcess([SwitchPort(port, f"far{port}") for port in PORTS], folder)
        switch.wait_ready()
        return switch

    def experiment(self, name: str, policers: str) -> Path:
        """An experiment file with these policers."""
        path = self.folder / f"{name}.yaml"
        path.write_text(EXPERIMENT.format(policers=policers))
        return path

    def weir(self, *words: str | Path) -> dict[str, Any]:
        """A command with --json: its exit code, what it printed and what it said on stderr."""
        # In this process: a new one takes longer to begin than all else.
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = run_cli([*map(str, words), "--json"])
        said = json.loads(out.getvalue()) if out.getvalue() else None
        return {"code": code, "said": said, "stderr": err.getvalue()}

    def watch(self, name: str, *words: str | Path) -> Watch:
        """A `weir watch` that runs."""
        return Watch(name, [_weir(), "watch", *map(str, words), "--json"], self.folder / f"{name}.log")

    def send(self, src_port: int, count: int = 1) -> None:
        """Send frames from a to b."""
        for _ in range(count):
            self.ends[1].send(frame(HOSTS["a"], HOSTS["b"], src_port))

    def until(self, config: Path, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status of which `holds` is true. Raises TimeoutError."""
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            said: dict[str, Any] = self.weir("status", config)["said"]
            if holds(said):
                return said
        raise TimeoutError(f"the switch did not become as expected: {said}")


class Watch:
    """A running `weir watch`."""

    def __init__(self, name: str, argv: list[str], log: Path) -> None:
        """Start it."""
        self._process = LoggedProcess(name, argv, log)

    def next(self, kind: str) -> dict[str, Any]:
        """The next event of a kind. Raises ProcessError when none comes."""
        match = self._process.wait_line(rf'^(\{{"event": "{kind}".*)', _PATIENCE_S)
        event: dict[str, Any] = json.loads(match[1])
        return event

    def kill(self) -> None:
        """End it without a chance to say goodbye."""
        self._process.stop(signal.SIGKILL)

    def interrupt(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        return self._process.stop(signal.SIGINT)


def _weir() -> str:
    return str(Path(sys.executable).with_name("weir"))


def applied(scene: Scenario) -> None:
    """Plan, apply, apply again, change one policer, status; and what cannot be."""
    result, two = scene.result, scene.experiment("two", TWO)
    result["unreachable"] = scene.weir("apply", two, "--switch", NOBODY)
    with scene.switch():
        result["first_plan"] = scene.weir("plan", two)
        result["status_before"] = scene.weir("status", two)
        result["first"] = scene.weir("apply", two)
        result["again"] = scene.weir("apply", two)
        changed = scene.experiment("changed", TWO.replace("8 kbit/s", "16 kbit/s", 1))
        result["plan"] = scene.weir("plan", changed)
        result["still"] = scene.weir("plan", two)
        result["changed"] = scene.weir("apply", changed)
        result["status"] = scene.weir("status", changed)
        result["wrong_device"] = scene.weir("apply", two, "--device-id", "7")
        result["wrong_device_read"] = scene.weir("status", two, "--device-id", "7")
        three = "{name: s, meter: sr3c, excess_burst: 9 kB, rate: 8 kbit/s, burst: 20 kB, match: [{}]}"
        other = scene.experiment("other", three)
        result["mismatch"] = scene.weir("apply", other)
        result["replaced"] = scene.weir("apply", other, "--load-pipeline")
        many = ", ".join(f"{{src_port: {port}}}" for port in range(1, 1100))
        full = scene.experiment("full", f"{{name: p, rate: 8 kbit/s, burst: 20 kB, match: [{many}]}}")
        result["full"] = scene.weir("apply", full, "--load-pipeline")


def kept(scene: Scenario) -> None:
    """A watch and a backup; the watch dies, then the switch."""
    result, two = scene.result, scene.experiment("kept", TWO)
    switch = scene.switch()
    first = scene.watch("first", two)
    result["configured"] = first.next("configured")
    result["not_primary"] = scene.weir("apply", two)
    log = scene.folder / "events.jsonl"
    backup = scene.watch("backup", two, "--backup", "--log", log)
    backup.next("waiting")
    scene.send(4000, FRAMES)
    scene.until(two, lambda said: said["policers"][0]["packets_met"] == FRAMES)
    killed_ns = time.time_ns()
    first.kill()
    result["taken_over"] = backup.next("configured")
    result["fail_over_s"] = (result["taken_over"]["realtime_ns"] - killed_ns) / 1e9
    result["kept_counting"] = scene.weir("status", two)["said"]["policers"][0]["packets_met"]
    switch.kill()
    result["lost"] = backup.next("lost")
    with scene.switch():
        ready_ns = time.time_ns()
        result["discontinuity"] = backup.next("discontinuity")
        result["configured_again"] = backup.next("configured")
        result["restart_s"] = (result["configured_again"]["realtime_ns"] - ready_ns) / 1e9
        result["status_again"] = scene.weir("status", two)
        result["interrupted"] = backup.interrupt()
    result["logged"] = [json.loads(line)["event"] for line in log.read_text().splitlines()]


def learned(scene: Scenario) -> None:
    """Flows come, are too many, fall silent, and leave their buckets to others."""
    result, each = scene.result, scene.experiment("each", LEARNED)
    with scene.switch():
        watch = scene.watch("learner", each)
        watch.next("configured")
        scene.until(each, lambda said: said["as_planned"])
        for port in (5001, 5002):
            scene.send(port)
        scene.until(each, lambda said: said["learned_flows"] == 2)
        scene.send(5003)
        result["exhausted"] = watch.next("exhausted")
        result["with_learned"] = scene.weir("plan", each)
        scene.until(each, lambda said: said["learned_flows"] == 0)
        scene.send(5003)
        scene.until(each, lambda said: said["learned_flows"] == 1)
        watch.kill()
        again = scene.watch("learner2", each)
        result["adopted"] = again.next("configured")
        scene.until(each, lambda said: said["learned_flows"] == 0)
        again.kill()


def main(_stop: StopToken) -> int:
    """Run the scenario."""
    folder = Path(sys.argv[1])
    scene = Scenario(folder)
    for part in (applied, kept, learned):
        begin_s = time.monotonic()
        part(scene)
        print(f"{part.__name__}: {time.monotonic() - begin_s:.1f} s", file=sys.stderr)
    (folder / "result.json").write_text(json.dumps(scene.result))
    return 0


if __name__ == "__main__":
    inside(main)
