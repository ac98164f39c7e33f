# SPDX-License-Identifier: Apache-2.0
import json
import shutil

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet

from weir.controlplane.attach import attachment_of
from weir.controlplane.config import parse_experiment
from weir.controlplane.errors import PipelineError, PlanError
from weir.controlplane.shipped import pipeline_directory
from weir.controlplane.targets.tofino_chassis import Panel, chassis_text
from weir.controlplane.targets.tofino_pipeline import (
    BfPipelineConfig,
    bf_pipeline_config,
    load_tofino_pipeline,
)

EXPERIMENT = parse_experiment("""\
name: chip
switch: {target: tofino}
hosts: {a: {port: 132}, b: {port: 140, rate: 1 Gbit/s, burst: 20 kB, queue: 800 kB}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
policers: [{name: p, rate: 1 Gbit/s, burst: 1 MB, match: [{from: a}]}]
""")
PIPE = {"p4_pipeline_name": "pipe", "context": "pipe/context.json", "config": "pipe/tofino.bin"}


@pytest.fixture(name="compiled")
def _compiled(tmp_path):
    """The output directory of the compiler, with the P4Info of the program for v1model: same object names."""
    pipe = {**PIPE, "pipe_scope": [0, 1, 2, 3], "path": "build"}
    program = {"program-name": "weir", "bfrt-config": "build/bf-rt.json", "p4_pipelines": [pipe]}
    conf = {"chip_list": [{"chip_family": "tofino"}], "p4_devices": [{"p4_programs": [program]}]}
    (tmp_path / "weir.conf").write_text(json.dumps(conf))
    (tmp_path / "bf-rt.json").write_text('{"tables": []}')
    (tmp_path / "pipe").mkdir()
    (tmp_path / "pipe" / "context.json").write_text("{}")
    (tmp_path / "pipe" / "tofino.bin").write_bytes(b"\x00\xff\x01")
    shutil.copy(pipeline_directory() / "weir.p4info.txtpb", tmp_path)
    return tmp_path


def test_the_message_has_every_file_under_stratums_numbers(compiled):
    message = BfPipelineConfig.FromString(bf_pipeline_config(compiled))
    assert (message.p4_name, message.bfruntime_info) == ("weir", b'{"tables": []}')
    (profile,) = message.profiles
    assert (profile.profile_name, profile.context, profile.binary) == ("pipe", b"{}", b"\x00\xff\x01")
    assert list(profile.pipe_scope) == [0, 1, 2, 3]
    assert len(UnknownFieldSet(message)) == 0
    # bf.proto by hand: p4_name = 1, bfruntime_info = 2, profiles = 3 of name, context, binary, scope (1 to 4)
    profile_hex = "0a0470697065" + "12027b7d" + "1a0300ff01" + "220400010203"
    length = f"{len(bytes.fromhex(profile_hex)):02x}"
    wanted = "0a0477656972" + "120e" + b'{"tables": []}'.hex() + "1a" + length + profile_hex
    assert bf_pipeline_config(compiled).hex() == wanted


def test_the_pipeline_is_pushed_with_its_p4info(compiled):
    config = load_tofino_pipeline(compiled).schema.get_pipeline_config()
    assert config.p4_device_config == bf_pipeline_config(compiled)
    assert {meter.preamble.alias for meter in config.p4info.meters} == {"policer"}


def test_the_output_of_the_public_compiler_makes_the_same_message(compiled):
    before = bf_pipeline_config(compiled)
    (compiled / "weir.conf").unlink()
    (compiled / "manifest.json").write_text('{"programs": [{"program_name": "weir.p4"}]}')
    assert bf_pipeline_config(compiled) == before
    (compiled / "pipe" / "tofino.bin").unlink()
    with pytest.raises(PipelineError, match=r"pipe: has none; valid: the assembler's binary, once"):
        bf_pipeline_config(compiled)


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("weir.conf", ": has none; valid: the compiler's .conf file, once"),
        (
            "pipe/tofino.bin",
            ": the binary is pipe/tofino.bin, which is not there; valid: the compiler's whole",
        ),
        ("bf-rt.json", ": bf-rt.json is build/bf-rt.json, which is not there; valid: the compiler's whole"),
        ("weir.p4info.txtpb", ": has none; valid: a P4Info (--p4runtime-files of the compiler), once"),
    ],
)
def test_a_file_that_is_missing_is_named(compiled, missing, message):
    (compiled / missing).unlink()
    with pytest.raises(PipelineError) as error:
        load_tofino_pipeline(compiled)
    assert message in str(error.value)


def test_a_conf_file_of_something_else_is_refused(compiled):
    (compiled / "weir.conf").write_text('{"p4_devices": []}')
    with pytest.raises(PipelineError, match=r"weir\.conf: not a \.conf file of one program"):
        bf_pipeline_config(compiled)


def test_queues_are_shaped_and_limited_in_cells():
    text = chassis_text(EXPERIMENT, attachment_of(EXPERIMENT).hosts, {})
    assert (
        text
        == """\
vendor_config {
  tofino_config {
    node_id_to_qos_config {
      key: 1
      value {
        queue_configs {
          sdk_port: 140
          queue_mapping {
            queue_id: 0
            priority: PRIO_0
            weight: 1
            minimum_guaranteed_cells: 0
            pool: EGRESS_APP_POOL_0
            base_use_limit: 10000
            baf: BAF_DISABLE
            hysteresis: 0
            max_rate_bytes {
              rate_bps: 1000000000
              burst_bytes: 20000
            }
          }
        }
      }
    }
  }
}
"""
    )


def test_ports_are_those_of_the_front_panel():
    panels = {"a": Panel(1, 0, 100 * 10**9), "b": Panel(2, 3, 25 * 10**9)}
    text = chassis_text(EXPERIMENT, attachment_of(EXPERIMENT).hosts, panels)
    assert text.startswith('description: "chip"\nnodes {\n  id: 1\n  slot: 1\n  index: 1\n}\n')
    assert '  id: 140\n  name: "b"\n  slot: 1\n  port: 2\n  channel: 3\n  speed_bps: 25000000000\n' in text


def test_a_host_without_a_panel_is_named_if_others_have_one():
    with pytest.raises(PlanError, match="no front-panel port for b; valid: "):
        chassis_text(EXPERIMENT, attachment_of(EXPERIMENT).hosts, {"a": Panel(1, 0, 10**11)})
