# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.analysis.detectors import PAIR_DETECTORS
from weir.controlplane.config import ConfigError, load_experiment, parse_experiment
from weir.runner.checks import check_runnable

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
            "valid: softswitch, bmv2, or `weir apply` to a running switch",
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
