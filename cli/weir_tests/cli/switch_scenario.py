# SPDX-License-Identifier: Apache-2.0
"""Run by `switch_commands_test.py` in a sandbox: the commands for running switches, on weir-switch.

    a ── port 1 ┐
    b ── port 2 ┼── weir-switch
    (port 3: where the collector would be)

Writes outputs and exit codes to `result.json` in the folder argv[1].
"""

from __future__ import annotations

import io
import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from weir.cli.main import run_cli
from weir.controlplane.attach import HostPort, host_mac
from weir.topo.bmv2proc import THRIFT_PORT, Bmv2Process, bmv2_problem
from weir.topo.process import LoggedProcess, run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir.topo.tools import find_own_program
from weir_tests.controlplane.scenario import frame, frame6, wire

EXPERIMENT = """\
name: scenario
switch: {{target: {target}}}
hosts: {{a: {{}}, b: {{{b}}}}}
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
    name: HostPort(port, host_mac(f"10.0.0.{port}"), f"10.0.0.{port}", f"2001:db8::{name}")
    for port, name in enumerate("ab", 1)
}
NOBODY = "127.0.0.1:9"
_PATIENCE_S = 60.0


class Scenario:
    """Links for a switch, methods to start it and run commands, and the collected results."""

    def __init__(self, folder: Path) -> None:
        """Create the links."""
        run_tool("ip", "link", "set", "lo", "up")
        self.folder = folder
        self.ends = {port: wire(port) for port in PORTS}
        self.result: dict[str, Any] = {}
        self._switches = 0

    def switch(self, *options: str, second: SwitchPort | None = None) -> SwitchProcess:
        """Start a weir-switch on the links and wait until it is ready; ``second`` replaces its port 2."""
        self._switches += 1
        folder = self.folder / f"switch{self._switches}"
        ports = {port: SwitchPort(port, f"far{port}") for port in PORTS}
        if second is not None:
            ports[second.number] = second
        switch = SwitchProcess(list(ports.values()), folder, options=options)
        switch.wait_ready()
        return switch

    def bmv2(self) -> Bmv2Process:
        """Start a bmv2 on the links and wait until it is ready."""
        self._switches += 1
        ports = {port: f"far{port}" for port in PORTS}
        switch = Bmv2Process(ports, self.folder / f"bmv2-{self._switches}")
        switch.wait_ready()
        return switch

    def experiment(self, name: str, policers: str, target: str = "softswitch", b: str = "") -> Path:
        """Write an experiment file with these policers."""
        path = self.folder / f"{name}.yaml"
        path.write_text(EXPERIMENT.format(policers=policers, target=target, b=b))
        return path

    def weir(self, *words: str | Path) -> dict[str, Any]:
        """Run a command with --json; returns its exit code, JSON output and stderr."""
        # In this process, because starting Python takes longer than everything else.
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = run_cli([*map(str, words), "--json"])
        output = json.loads(out.getvalue()) if out.getvalue() else None
        return {"code": code, "output": output, "stderr": err.getvalue()}

    def watch(self, name: str, *words: str | Path) -> Watch:
        """Start a `weir watch`."""
        return Watch(name, [_weir(), "watch", *map(str, words), "--json"], self.folder / f"{name}.log")

    def send(self, src_port: int, count: int = 1) -> None:
        """Send frames from a to b."""
        for _ in range(count):
            self.ends[1].send(frame(HOSTS["a"], HOSTS["b"], src_port))

    def until(self, config: Path, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Poll `weir status` until `holds` is true of its output. Raises TimeoutError."""
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            output: dict[str, Any] = self.weir("status", config)["output"]
            if holds(output):
                return output
        raise TimeoutError(f"the switch did not reach the expected state: {output}")

    def settled(self, config: Path) -> int:
        """Packets that met the first policer, once the count is positive and stable; bmv2 loses frames."""
        seen: list[int] = []

        def settled(output: dict[str, Any]) -> bool:
            seen.append(output["policers"][0]["packets_met"])
            return len(seen) > 1 and seen[-1] == seen[-2] > 0

        self.until(config, settled)
        return seen[-1]


class Watch:
    """A running `weir watch`."""

    def __init__(self, name: str, argv: list[str], log: Path) -> None:
        """Start it."""
        self._process = LoggedProcess(name, argv, log)

    def next(self, kind: str) -> dict[str, Any]:
        """Wait for the next event of a kind. Raises ProcessError if there is none."""
        match = self._process.wait_line(rf'^(\{{"event": "{kind}".*)', _PATIENCE_S)
        event: dict[str, Any] = json.loads(match[1])
        return event

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.stop(signal.SIGKILL)

    def interrupt(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        return self._process.stop(signal.SIGINT)


def run_own(name: str, *words: str) -> None:
    """Run one of weir's own programs and wait for its exit."""
    subprocess.run([find_own_program(name), *words], check=True, capture_output=True)


def _weir() -> str:
    return str(Path(sys.executable).with_name("weir"))


def applied(scene: Scenario) -> None:
    """Plan, apply, apply again, change one policer, status; and failing commands."""
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


def links(scene: Scenario) -> dict[str, Any]:
    """Links of ports: planned, set, unchanged, changed by another program, restored; and a missing port."""
    shaped = scene.experiment("shaped", TWO, b="delay: 5 ms, rate: 50 Mbit/s, loss: 0.5 %")
    seen: dict[str, Any] = {}
    with scene.switch():
        seen["plan"] = scene.weir("plan", shaped)
        seen["first"] = scene.weir("apply", shaped)
        seen["again"] = scene.weir("apply", shaped)
        run_own("weir-switch", "links", "set", "2", "rate=1Mbit/s,loss=none")
        seen["foreign"] = scene.weir("plan", shaped)
        seen["restored"] = scene.weir("apply", shaped)
        scene.send(4000, FRAMES)
        seen["status"] = scene.until(
            shaped, lambda output: output["ports"][1]["in_flight"] == 0 < _sent(output)
        )
        seen["no_port"] = scene.weir("apply", scene.experiment("far", TWO, b="port: 9, delay: 5 ms"))
    # weir-switch's options and experiment files must have the same defaults for what they omit.
    given = SwitchPort(2, "far2", delay_ns=5_000_000, rate_bps=50_000_000, deflect_to=3)
    with scene.switch(second=given):
        seen["same"] = scene.weir("plan", scene.experiment("same", TWO, b="delay: 5 ms, rate: 50 Mbit/s"))
    return seen


class Terminal:
    """A program on a pseudo-terminal that is wide enough for every table."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start it."""
        self._ours, theirs = os.openpty()
        wide = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "60"}
        self._process = subprocess.Popen(
            argv, env=wide, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
        )
        os.close(theirs)

    def until(self, pattern: str) -> str:
        """Wait for output that matches a pattern; returns the match. Raises TimeoutError."""
        shown, give_up = "", time.monotonic() + _PATIENCE_S
        while (left := give_up - time.monotonic()) > 0:
            if select.select([self._ours], [], [], left)[0]:
                shown += os.read(self._ours, 65_536).decode(errors="replace")
            if (match := re.search(pattern, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown))) is not None:
                return match[0]
        raise TimeoutError(f"{pattern} was not shown: {shown}")

    def interrupt(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(_PATIENCE_S)


def live(scene: Scenario) -> dict[str, Any]:
    """The live view while frames are policed and conforming ones are queued for a slow link."""
    slow = scene.experiment("slow", TWO, b="rate: 20 kbit/s, queue: 256 kB")
    with scene.switch():
        scene.weir("apply", slow)
        terminal = Terminal([_weir(), "status", str(slow), "--watch", "--interval", "0.1"])
        terminal.until("the switch is as planned")
        scene.send(4000, FRAMES)
        # policer, rate, burst, effective; green, yellow, red; passed/s and red/s; queue
        row = terminal.until(
            r"│ one +│(?:[^│\n]*│){3} *[1-9]\d* │ *0 │ *[1-9]\d* │[^│\n]*│[^│\n]*│ *[1-9][^│\n]*│"
        )
        return {"row": row, "interrupted": terminal.interrupt()}


def ipv6(scene: Scenario) -> dict[str, Any]:
    """IPv6 frames between hosts with IPv4 and IPv6 addresses."""
    a, b = HOSTS["a"], HOSTS["b"]
    stranger = replace(a, ip6=b.ip6), replace(b, ip6=a.ip6)
    both = scene.experiment(
        "six", "{name: one, rate: 8 kbit/s, burst: 20 kB, match: [{from: a, dst_port: 9000}]}"
    )
    text = both.read_text().replace("a: {}", f"a: {{address6: '{a.ip6}'}}")
    both.write_text(text)
    with scene.switch():
        applied = scene.weir("apply", both)
        for _ in range(FRAMES):
            scene.ends[1].send(frame6(a, b, 4000, 9000))
        for _ in range(FRAMES):  # from another host, and to another port
            scene.ends[1].send(frame6(*stranger, 4000, 9000))
            scene.ends[1].send(frame6(a, b, 4000, 9001))
        status = scene.until(both, lambda output: output["ports"][0]["received"]["packets"] == 3 * FRAMES)
    return {"applied": applied, "status": status}


def _sent(output: dict[str, Any]) -> int:
    sent: int = output["ports"][1]["sent"]["packets"]
    return sent


def kept(scene: Scenario, target: str, start: Callable[[], SwitchProcess | Bmv2Process]) -> dict[str, Any]:
    """A watch and a backup; first the watch is killed, then the switch."""
    result: dict[str, Any] = {}
    bmv2 = target == "bmv2"
    queue = "rate: 10 Mbit/s, queue_packets: 50"
    two = scene.experiment(f"kept-{target}", TWO, target, queue)
    words = ("--thrift-port", str(THRIFT_PORT)) if bmv2 else ()
    if bmv2:
        result["no_thrift"] = scene.weir("watch", two)
    switch = start()
    first = scene.watch(f"first-{target}", two, *words)
    result["configured"] = first.next("configured")
    result["not_primary"] = scene.weir("apply", two)
    log = scene.folder / f"events-{target}.jsonl"
    backup = scene.watch(f"backup-{target}", two, "--backup", "--log", log, *words)
    backup.next("waiting")
    scene.send(4000, FRAMES)
    result["met"] = scene.settled(two)
    killed_ns = time.time_ns()
    first.kill()
    result["taken_over"] = backup.next("configured")
    result["fail_over_s"] = (result["taken_over"]["realtime_ns"] - killed_ns) / 1e9
    status = scene.weir("status", two)["output"]
    result["kept_counting"] = status["policers"][0]["packets_met"]
    result["red"] = status["policers"][0]["counters"]["red"]["packets"]
    result["drops"] = status["drops"]
    result["preempted"] = scene.weir("apply", two, *words, "--election-id", "9")
    result["superseded"] = backup.next("superseded")
    result["returned"] = backup.next("configured")
    switch.kill()
    result["lost"] = backup.next("lost")
    with start():
        ready_ns = time.time_ns()
        result["discontinuity"] = backup.next("discontinuity")
        result["configured_again"] = backup.next("configured")
        result["restart_s"] = (result["configured_again"]["realtime_ns"] - ready_ns) / 1e9
        result["status_again"] = scene.weir("status", two)
        result["interrupted"] = backup.interrupt()
    result["logged"] = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    return result


def on_bmv2(scene: Scenario) -> dict[str, Any]:
    """Apply, apply again, change one policer, set a queue; and features that bmv2 lacks."""
    queue = "rate: 10 Mbit/s, queue_packets: 50"
    two = scene.experiment("bmv2", TWO, "bmv2", queue)
    changed = scene.experiment("bmv2-changed", TWO.replace("8 kbit/s", "16 kbit/s", 1), "bmv2", queue)
    srtcm = "{name: s, meter: sr3c, excess_burst: 9 kB, rate: 8 kbit/s, burst: 20 kB, match: [{}]}"
    thrift = ("--thrift-port", str(THRIFT_PORT))
    with scene.bmv2():
        return {
            "no_thrift": scene.weir("apply", two),
            "first": scene.weir("apply", two, *thrift),
            "again": scene.weir("apply", two, *thrift),
            "changed": scene.weir("apply", changed, *thrift),
            "status": scene.weir("status", changed),
            "unsupported": scene.weir("apply", scene.experiment("bmv2-sr3c", srtcm, "bmv2")),
            "nobody_on_thrift": scene.weir("apply", two, "--thrift-port", "9"),
            "p4runtime_on_thrift": scene.weir("apply", two, "--thrift-port", "9559"),
        }


def with_tls(scene: Scenario) -> dict[str, Any]:
    """Mutual TLS; and wrong or missing certificates."""
    two, pem = scene.experiment("tls", TWO), Certificates(scene.folder / "pem")
    ours, theirs = pem.authority("ours"), pem.authority("theirs")
    switch, controller, stranger = (
        pem.signed("switch", ours),
        pem.signed("controller", ours),
        pem.signed("stranger", theirs),
    )
    options = ("--tls-cert", switch[0], "--tls-key", switch[1], "--tls-ca", ours)

    def tls(authority: Path, cert: tuple[Path, Path] | None) -> list[str | Path]:
        words: list[str | Path] = ["--tls-ca", authority]
        return words if cert is None else [*words, "--tls-cert", cert[0], "--tls-key", cert[1]]

    with scene.switch(*map(str, options)):
        return {
            "apply": scene.weir("apply", two, *tls(ours, controller)),
            "status": scene.weir("status", two, *tls(ours, controller)),
            "stranger": scene.weir("apply", two, *tls(ours, stranger)),
            "no_certificate": scene.weir("apply", two, *tls(ours, None)),
            "other_authority": scene.weir("apply", two, *tls(theirs, controller)),
            "other_name": scene.weir("apply", two, *tls(ours, controller), "--switch", "localhost:9559"),
            "plain": scene.weir("apply", two),
            "no_file": scene.weir("apply", two, "--tls-ca", scene.folder / "none.pem"),
            "half": scene.weir("apply", two, "--tls-ca", ours, "--tls-cert", controller[0]),
        }


def documented(scene: Scenario) -> list[dict[str, str]]:
    """The commands of docs/control-plane.md, each with its documented and its actual output."""
    page = Path(__file__).parents[3] / "docs" / "control-plane.md"
    blocks = re.findall(r"^```(yaml|console)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (scene.folder / "docs").mkdir()
    seen = []
    with scene.switch(), chdir(scene.folder / "docs"):
        for kind, text in blocks:
            if kind == "yaml":
                name = text.split("\n", 1)[0].removeprefix("# ")
                Path(name).write_text(text)
                continue
            for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, expected = example.partition("\n")
                seen.append({"command": command, "expected": expected, "printed": _shell(command)})
    return seen


def _shell(command: str) -> str:
    words = shlex.split(command)
    if words[0] != "weir":
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(sys.stdout):
        run_cli(words[1:])
    return out.getvalue()


class Certificates:
    """Creates authorities and certificates with openssl."""

    def __init__(self, folder: Path) -> None:
        """Write them to a folder."""
        folder.mkdir()
        self._folder = folder

    def authority(self, name: str) -> Path:
        """Create a self-signed authority; returns its certificate."""
        key, cert = self._files(name)
        self._request(key, cert, name, "-x509", "-days", "2")
        return cert

    def signed(self, name: str, authority: Path) -> tuple[Path, Path]:
        """Create a certificate for 127.0.0.1; returns it and its key."""
        key, cert = self._files(name)
        signer = ("-CA", str(authority), "-CAkey", str(authority.with_suffix(".key")))
        more = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE")
        self._request(key, cert, name, "-x509", "-days", "2", *signer, *more)
        return cert, key

    def _files(self, name: str) -> tuple[Path, Path]:
        return self._folder / f"{name}.key", self._folder / f"{name}.pem"

    def _request(self, key: Path, cert: Path, name: str, *more: str) -> None:
        kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        files = ("-keyout", str(key), "-out", str(cert))
        command = ["openssl", "req", *kind, *files, "-subj", f"/CN={name}", *more]
        subprocess.run(command, check=True, capture_output=True)


def learned(scene: Scenario) -> None:
    """Flows are learned, exceed the buckets, become idle, and release their buckets."""
    result, each = scene.result, scene.experiment("each", LEARNED)
    with scene.switch():
        watch = scene.watch("learner", each)
        watch.next("configured")
        scene.until(each, lambda output: output["as_planned"])
        for port in (5001, 5002):
            scene.send(port)
        scene.until(each, lambda output: output["learned_flows"] == 2)
        scene.send(5003)
        result["exhausted"] = watch.next("exhausted")
        result["with_learned"] = scene.weir("plan", each)
        scene.until(each, lambda output: output["learned_flows"] == 0)
        scene.send(5003)
        scene.until(each, lambda output: output["learned_flows"] == 1)
        watch.kill()
        again = scene.watch("learner2", each)
        result["adopted"] = again.next("configured")
        scene.until(each, lambda output: output["learned_flows"] == 0)
        again.kill()


def main(_stop: StopToken) -> int:
    """Run the scenario."""
    folder = Path(sys.argv[1])
    scene = Scenario(folder)
    applied(scene)
    scene.result["links"] = links(scene)
    scene.result["live"] = live(scene)
    scene.result["ipv6"] = ipv6(scene)
    scene.result["kept"] = {"softswitch": kept(scene, "softswitch", scene.switch)}
    learned(scene)
    if bmv2_problem() is None:
        scene.result["bmv2"] = on_bmv2(scene)
        scene.result["kept"]["bmv2"] = kept(scene, "bmv2", scene.bmv2)
    scene.result["documented"] = documented(scene)
    if shutil.which("openssl") is not None:
        scene.result["tls"] = with_tls(scene)
    (folder / "result.json").write_text(json.dumps(scene.result))
    return 0


if __name__ == "__main__":
    inside(main)
