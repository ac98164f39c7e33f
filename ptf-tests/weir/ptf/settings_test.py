# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.ptf.settings import Settings, UsageError, read_param, read_ports

SETTINGS = Settings(
    program="/a/nat.json",
    p4info="/a/nat's.txtpb",
    tests="/a/ptf",
    logs="/a/logs",
    python="/usr/bin/python3",
    ptf="/usr/bin/ptf",
    ports=(0, 1),
    device_id=0,
    cpu_port=510,
    push=True,
    test_params={"wait": "0.5"},
    names=("nat", "^nat.Slow"),
    ptf_options=("--failfast",),
)


@pytest.mark.parametrize(
    ("text", "ports"), [("1", (0,)), ("8", tuple(range(8))), ("1-4", (1, 2, 3, 4)), ("509-509", (509,))]
)
def test_ports_are_a_number_or_a_range(text, ports):
    assert read_ports(text) == ports


@pytest.mark.parametrize("text", ["0", "-1", "four", "4-1", "1-510", "511", "1-", "", "-"])
def test_other_ports_are_refused_with_what_would_be_valid(text):
    with pytest.raises(UsageError, match=r"--ports .*: no ports; valid: .*1-4"):
        read_ports(text)


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("wait=0.5", "0.5"),
        ("sizes=[64, 1500]", "[64, 1500]"),
        ("name='it'", "'it'"),
        ("pltfm=sw", "'sw'"),
        ("path=a=b; import os", "'a=b; import os'"),
        ("empty=", "''"),
    ],
)
def test_a_parameter_is_a_literal_or_a_string(text, expression):
    name = text.partition("=")[0]
    assert read_param(text) == (name, expression)


@pytest.mark.parametrize("text", ["wait", "=1", "a b=1", "a-b=1"])
def test_a_parameter_without_a_name_or_a_value_is_refused(text):
    with pytest.raises(UsageError, match="not NAME=VALUE"):
        read_param(text)


def test_the_tests_get_the_fields_names_and_their_own_parameters_replace_them():
    assert SETTINGS.params("127.0.0.1:9559") == {
        "grpcaddr": "'127.0.0.1:9559'",
        "p4info": '"/a/nat\'s.txtpb"',
        "config": "'/a/nat.json'",
        "device_id": "0",
        "cpu_port": "510",
        "wait": "0.5",
    }


def test_settings_are_read_as_they_were_saved(tmp_path):
    SETTINGS.save(tmp_path / "run.json")
    assert Settings.load(tmp_path / "run.json") == SETTINGS
