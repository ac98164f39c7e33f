# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.controlplane.config import ConfigError, load_experiment
from weir.runner.inputs import keep_inputs, read_inputs
from weir.runner.replays import script_of
from weir.topo.script import Block, Script

SCRIPT = Script((Block("client", 0, ((0.0, 10),)), Block("server", 10, ((0.5, 2000),))))
EXPERIMENT = """\
name: again
hosts: {a: {}, b: {}}
flows:
  - {name: one, from: a, to: b, duration: 2 s, replay: traces/one.replay}
  - {name: two, from: a, to: b, duration: 2 s, writes: {size: 1 kB, every: 500 ms}}
  - {name: three, from: a, to: b, duration: 2 s}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "one.replay").write_text(SCRIPT.text)
    path = tmp_path / "again.yaml"
    path.write_text(EXPERIMENT)
    return path


def test_a_run_plays_its_copies_of_the_replay_files(config: Path) -> None:
    experiment, run_dir = load_experiment(config), config.parent / "run"
    run_dir.mkdir()
    keep_inputs(run_dir, read_inputs(experiment, config))
    one, two, three = (script_of(flow, run_dir) for flow in experiment.flows)
    assert one is not None
    assert two is not None
    assert one.blocks == SCRIPT.blocks
    assert two.of("server")[0].writes == ((0.0, 1000), (0.5, 1000), (1.0, 1000), (1.5, 1000))
    assert three is None
    # The config in the run directory finds the copies.
    assert read_inputs(experiment, run_dir / "config.yaml") == {"replays/one.replay": SCRIPT.text}


def test_the_error_of_an_unreadable_replay_file_names_file_and_flow(config: Path) -> None:
    experiment = load_experiment(config)
    path = config.parent / "traces" / "one.replay"
    path.write_text("capture")
    with pytest.raises(ConfigError, match=r"again.yaml: flows\[0\].replay: .*one.replay:1: no JSON"):
        read_inputs(experiment, config)
    path.unlink()
    with pytest.raises(ConfigError, match=r"one.replay: No such file .*; valid: a file of `weir trace`"):
        read_inputs(experiment, config)


def test_the_error_of_a_replay_file_that_does_not_suit_its_flow_names_both(config: Path) -> None:
    path = config.parent / "traces" / "one.replay"
    datagrams = Script((Block("server", 0, ((0.0, 1460),)),), protocol="udp")
    path.write_text(datagrams.text)
    with pytest.raises(
        ConfigError, match=r"flows\[0\].replay: .*: it is udp, the flow is tcp; valid: protocol: udp"
    ):
        read_inputs(load_experiment(config), config)
    text = EXPERIMENT.replace(
        "hosts: {a: {}, b: {}}", 'hosts: {a: {address6: "fd00::1"}, b: {address6: "fd00::2"}}'
    )
    text = text.replace("duration: 2 s, replay", "duration: 2 s, protocol: udp, replay")
    config.write_text(text)
    assert read_inputs(load_experiment(config), config) == {"replays/one.replay": datagrams.text}
    config.write_text(text.replace("protocol: udp", "protocol: udp, ip_version: 6"))
    with pytest.raises(
        ConfigError, match=r"datagram of 1460 B does not fit an IPv6 packet .* at most 1452 B"
    ):
        read_inputs(load_experiment(config), config)


def test_two_replay_files_with_the_same_name_are_refused(config: Path) -> None:
    config.write_text(EXPERIMENT.replace("writes: {size: 1 kB, every: 500 ms}", "replay: one.replay"))
    (config.parent / "one.replay").write_text(SCRIPT.text)
    with pytest.raises(
        ConfigError, match=r"flows\[1\].replay: .* has the same name as .*; valid: another name"
    ):
        read_inputs(load_experiment(config), config)
