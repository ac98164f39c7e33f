# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.analysis.detectors import PAIR_DETECTORS
from weir.controlplane.config import ConfigError, Source, load_experiment, parse_experiment
from weir.runner.checks import check_machine, check_place, check_runnable
from weir.runner.prepare import TimeChoice, new_run_of
from weir.topo.bmv2proc import BMV2
from weir.topo.sandbox import SandboxError
from weir.topo.tools import ToolMissingError

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
PATH = Path("x.yaml")
VALID = """\
name: tiny
hosts: {a: {address: 10.0.0.7}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
policers: [{name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}]
"""


SHIPPED = [
    path
    for path in sorted(EXPERIMENTS.glob("*.yaml"))
    if "$schema=experiment.schema.json" in path.read_text().partition("\n")[0]
]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_experiments_are_runnable(path: Path) -> None:
    check_runnable(load_experiment(path), path)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "hosts:",
            "switch: {target: tofino}\nhosts:",
            "x.yaml: switch.target: a run starts softswitch or bmv2, not tofino; "
            "valid: softswitch, bmv2, or switch.address of a switch that runs",
        ),
        (
            "hosts:",
            "kernel: 6.12\nhosts:",
            "x.yaml: kernel: only a run in virtual time has a kernel; valid: leave it out, or time: virtual",
        ),
        ("b: {}", "b: {port: 7}", "x.yaml: hosts.b.port: assigned by the run; valid: leave it out"),
        (
            "b: {}",
            "b: {address6: 'fe80::1'}",
            "x.yaml: hosts.b.address6: fe80::1; valid: a unicast address that is not link-local",
        ),
        (
            "flows:",
            "analysis: {detectors: [shared, shard]}\nflows:",
            "x.yaml: analysis.detectors[1]: no detector 'shard' of pairs; valid: "
            + ", ".join(PAIR_DETECTORS),
        ),
        (
            "10.0.0.7",
            "10.0.0.254",
            "x.yaml: hosts.a.address: 10.0.0.254; valid: in 10.0.0.0/24, but not 10.0.0.254",
        ),
        (
            "burst: 20 ms,",
            "burst: 20 ms, reports: {drops: false},",
            "x.yaml: policer p of phase main: reports.drops: a run explains every loss by its report; "
            "valid: true",
        ),
    ],
)
def test_unsupported_settings_are_refused_by_key(old: str, new: str, line: str) -> None:
    assert old in VALID
    with pytest.raises(ConfigError) as error:
        check_runnable(parse_experiment(VALID.replace(old, new)), PATH)
    assert error.value.lines == (line,)


def test_a_run_in_virtual_time_may_name_its_kernel() -> None:
    experiment = parse_experiment(VALID.replace("hosts:", "time: virtual\nkernel: 6.12\nhosts:"))
    assert (experiment.time, experiment.kernel) == ("virtual", "6.12")
    check_runnable(experiment, PATH)


MOVING = """\
name: moving
hosts: {a: {}, b: {}, c: {rate: 9 Mbit/s, queue: 30 kB}}
flows:
  - {name: one, from: a, to: c, duration: 9 s, measured: true}
  - {name: other, from: b, to: c, duration: 9 s, measured: true}
phases:
  - name: first
    policers: [{name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: c}]}]
    changes:
      - {at: 1 s, policer: p, rate: 4 Mbit/s}
      - {at: 2 s, host: c, delay: 3 ms}
      - {at: 3 s, policer: p, match: [{from: a}]}
"""


def test_a_change_of_whether_measured_flows_share_a_policer_is_refused_before_the_run() -> None:
    with pytest.raises(ConfigError) as error:
        check_runnable(parse_experiment(MOVING), PATH, Source.parse(MOVING, str(PATH)))
    assert error.value.lines == (
        "x.yaml:12: phases[0].changes[2].match: the measured flows one and other share a bucket before this "
        "change, and share none after it; valid: two phases, or only one of them measured",
    )
    one_measured = MOVING.replace(
        "from: b, to: c, duration: 9 s, measured: true", "from: b, to: c, duration: 9 s"
    )
    check_runnable(parse_experiment(one_measured), PATH)
    check_runnable(parse_experiment(MOVING.replace("from: a}]", "from: [a, b]}]")), PATH)


ON_BMV2 = """\
name: tiny
switch: {target: bmv2}
hosts:
  a: {}
  b:
    delay: 5 ms
    jitter: 1 ms
    loss: 1 %
    line_rate: 1 Gbit/s
    rate: 8 Mbit/s
    queue_packets: 60
flows: [{name: f, from: a, to: b, duration: 1 s}]
policers:
  - {name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}
"""
"""What bmv2 and its wires do."""


def test_links_and_queues_in_packets_are_runnable_on_bmv2() -> None:
    check_runnable(parse_experiment(ON_BMV2), PATH)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "rate: 8 Mbit/s\n",
            "rate: 8 Mbit/s\n    burst: 20 kB\n",
            "x.yaml:11: hosts.b.burst: queues are served in packets and have no burst; valid: no burst "
            "(target bmv2)",
        ),
        (
            "queue_packets: 60",
            "queue: 90 kB",
            "x.yaml:11: hosts.b.queue: queues are limited in packets; valid: queue_packets (target bmv2)",
        ),
        (
            "- {name: p,",
            "- {name: p, meter: sr3c, excess_burst: 20 kB,",
            "x.yaml:14: policer p of phase main: no sr3c meter; valid: sr2c, tr3c (target bmv2)",
        ),
        (
            "- {name: p,",
            "- {name: p, length: ip,",
            "x.yaml:14: policer p of phase main: meters do not count ip; valid: frame (target bmv2)",
        ),
        (
            "hosts:",
            "time: virtual\nhosts:",
            "x.yaml:3: time: bmv2 has not been tried in virtual time; valid: real, or target: softswitch "
            "(target bmv2)",
        ),
    ],
)
def test_what_bmv2_cannot_do_is_refused_with_its_line_before_anything_starts(
    tmp_path: Path, old: str, new: str, line: str
) -> None:
    assert old in ON_BMV2
    with pytest.raises(ConfigError) as error, new_run_of(ON_BMV2.replace(old, new), PATH, tmp_path):
        pass
    assert error.value.lines == (line,)
    assert list(tmp_path.iterdir()) == []


def test_virtual_time_by_option_is_refused_on_bmv2(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigError, match=r"^x\.yaml: --time virtual: bmv2 has not been tried in virtual"),
        new_run_of(ON_BMV2, PATH, tmp_path, TimeChoice("virtual")),
    ):
        pass


def test_a_run_on_a_bmv2_that_is_not_installed_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    runs = tmp_path / "runs"
    with pytest.raises(ToolMissingError) as error, new_run_of(ON_BMV2, PATH, runs):
        pass
    assert str(error.value) == (
        f"switch.target: bmv2: {BMV2} is not on PATH (https://github.com/p4lang/behavioral-model); "
        "valid: bmv2's official packages, or target: softswitch"
    )
    assert not runs.exists()
    check_machine(parse_experiment(VALID), PATH)


def test_directories_that_a_sandbox_does_not_see_are_refused_before_one_is_made(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/run/weir-test")
    for runs in (Path("/run/weir-test/runs"), link / "runs"):
        with pytest.raises(ConfigError) as error, new_run_of(VALID, PATH, runs):
            pass
        assert str(error.value) == (
            "/run/weir-test/runs: a run cannot write there, as its sandbox has a /run of its own; "
            "valid: --runs with a directory that is not below /run"
        )
    assert not Path("/run/weir-test").exists()
    check_place(tmp_path / "runs")
    check_place(Path("/runs"))


ELSEWHERE = """\
name: tiny
switch:
  address: 192.0.2.1:9559
  ports:
    a: {port: 11, interface: weir-none1}
    b: {port: 12, interface: weir-none2}
    collector: {port: 13, interface: lo}
hosts: {a: {}, b: {delay: 5 ms}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
policers: [{name: p, rate: 8 Mbit/s, burst: 20 ms, match: [{to: b}]}]
"""


def test_a_switch_elsewhere_is_runnable() -> None:
    check_runnable(parse_experiment(ELSEWHERE), PATH)


ON_TOFINO = ELSEWHERE.replace(
    "  address: 192.0.2.1:9559", "  target: tofino\n  address: bfruntime://192.0.2.1"
)


@pytest.mark.parametrize("address", ["bfruntime://192.0.2.1", "192.0.2.1:9559"])
def test_a_tofino_is_runnable_with_wires_that_delay(address: str) -> None:
    check_runnable(parse_experiment(ON_TOFINO.replace("bfruntime://192.0.2.1", address)), PATH)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "b: {delay: 5 ms}",
            "b: {rate: 8 Mbit/s}",
            "x.yaml: hosts.b.rate: a run sets no queues on a Tofino; valid: no rate (target tofino)",
        ),
        (
            "burst: 20 ms, match",
            "burst: 20 ms, length: ip, match",
            "x.yaml: policer p of phase main: meters do not count ip; valid: frame (target tofino)",
        ),
    ],
)
def test_what_a_tofino_cannot_do_is_named(old: str, new: str, line: str) -> None:
    assert old in ON_TOFINO
    with pytest.raises(ConfigError) as error:
        check_runnable(parse_experiment(ON_TOFINO.replace(old, new)), PATH)
    assert error.value.lines == (line,)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (
            "    collector: {port: 13, interface: lo}\n",
            "",
            "x.yaml:4: switch.ports: no cable to collector; "
            "valid: port and interface of each host and of collector",
        ),
        (
            "switch:\n",
            "switch:\n  target: bmv2\n",
            "x.yaml:2: switch.thrift_port: missing: bmv2 drops bursts of 64 packets without a trace unless "
            "its queues are set; valid: such as 9090, of a bmv2 on this machine",
        ),
        (
            "hosts:",
            "time: virtual\nhosts:",
            "x.yaml:8: time: a switch that runs already has its own clock; valid: real, or no switch.address",
        ),
    ],
)
def test_what_a_run_needs_to_know_of_a_switch_elsewhere_is_named(
    tmp_path: Path, old: str, new: str, line: str
) -> None:
    assert old in ELSEWHERE
    with pytest.raises(ConfigError) as error, new_run_of(ELSEWHERE.replace(old, new), PATH, tmp_path):
        pass
    assert error.value.lines == (line,)


def test_each_interface_that_a_run_cannot_take_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error, new_run_of(ELSEWHERE, PATH, tmp_path):
        pass
    first, second, third = error.value.lines
    assert first.startswith(
        "x.yaml:5: switch.ports.a.interface: this machine has no interface weir-none1; valid: "
    )
    assert second.startswith("x.yaml:6: switch.ports.b.interface: this machine has no interface weir-none2;")
    assert third == "x.yaml:7: switch.ports.collector.interface: lo is the loopback; valid: a network card"
    assert list(tmp_path.iterdir()) == []


def test_taking_network_cards_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.runner.checks.card_problem", lambda _name: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with (
        pytest.raises(
            SandboxError, match=r"^switch\.ports: the run takes network cards .* needs root; valid"
        ),
        new_run_of(ELSEWHERE, PATH, tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
