# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.controlplane.config.values import LEARNED_FLOWS, POLICER_CELLS
from weir.controlplane.errors import PipelineError
from weir.controlplane.pipeline import load_pipeline
from weir.controlplane.shipped import pipeline_directory


@pytest.fixture(name="copied")
def _copied(tmp_path: Path) -> Path:
    for name in ("weir.p4info.txtpb", "weir.json"):
        (tmp_path / name).write_bytes((pipeline_directory() / name).read_bytes())
    return tmp_path


def message_of(directory: Path) -> str:
    with pytest.raises(PipelineError) as error:
        load_pipeline(directory)
    return str(error.value).replace(str(directory), "D")


def test_the_shipped_pipeline_has_what_plans_write() -> None:
    pipeline = load_pipeline()
    assert pipeline.schema.name == "weir"
    assert pipeline.schema.meters["policer"].size == POLICER_CELLS
    assert pipeline.schema.tables["flow_policer"].size == LEARNED_FLOWS


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert message_of(tmp_path) == (
        "D/weir.p4info.txtpb: no such file; valid: a directory with weir.p4info.txtpb and weir.json"
    )


def test_a_program_that_is_not_json_is_named(copied: Path) -> None:
    (copied / "weir.json").write_text("program {")
    assert message_of(copied).startswith("D/weir.json: not JSON: Expecting value")


def test_json_that_is_not_a_program_is_named(copied: Path) -> None:
    (copied / "weir.json").write_text('{"name": "package"}')
    assert message_of(copied) == "D/weir.json: JSON, but not a BMv2 program; valid: the output of p4c-bm2-ss"


def test_a_file_that_is_not_a_p4info_is_named(copied: Path) -> None:
    (copied / "weir.p4info.txtpb").write_text("tables [")
    assert message_of(copied).startswith("D/weir.p4info.txtpb: not a P4Info: ")


def test_an_empty_p4info_is_named(copied: Path) -> None:
    (copied / "weir.p4info.txtpb").write_text("")
    assert (
        message_of(copied) == "D/weir.p4info.txtpb: no table 'forward'; valid: the P4Info of weir's pipeline"
    )


def test_the_p4info_of_another_program_is_named(copied: Path) -> None:
    text = (copied / "weir.p4info.txtpb").read_text()
    (copied / "weir.p4info.txtpb").write_text(text.replace('alias: "verdict"', 'alias: "judgement"'))
    assert (
        message_of(copied) == "D/weir.p4info.txtpb: no table 'verdict'; valid: the P4Info of weir's pipeline"
    )


def test_another_key_of_a_table_is_named(copied: Path) -> None:
    text = (copied / "weir.p4info.txtpb").read_text()
    (copied / "weir.p4info.txtpb").write_text(text.replace('name: "dscp"', 'name: "tos"'))
    assert message_of(copied) == (
        "D/weir.p4info.txtpb: table 'classify' has the key "
        "dst, dst_port, has_ports, ingress_port, protocol, src, src_port, tos; "
        "valid: dscp, dst, dst_port, has_ports, ingress_port, protocol, src, src_port"
    )
