# SPDX-License-Identifier: Apache-2.0
"""The options of commands for a running switch, before anything is connected."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.cli.errors import InputError
from weir.cli.main import run_cli
from weir.cli.switch_job import Endpoint, Tls, endpoint_of

EXPERIMENT = """\
name: addressed
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""


@pytest.mark.parametrize(
    "address", ["127.0.0.1:85095", "127.0.0.1:0", "127.0.0.1", "127.0.0.1:95 59", "bfruntime://h:85095"]
)
def test_an_address_that_is_none_is_an_input_error(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = tmp_path / "x.yaml"
    experiment.write_text(EXPERIMENT)
    assert run_cli(["apply", str(experiment), "--switch", address]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"weir: --switch: {address!r} is not ")
    assert "; valid: such as " in line


@pytest.mark.parametrize("address", ["127.0.0.1:9559", "[::1]:9559", "switch.example:1"])
def test_an_address_of_p4runtime_is_used_as_it_is_given(address: str) -> None:
    assert endpoint_of(address, None, 2, Tls()) == Endpoint(address, 1, 2)


def test_an_address_of_a_bf_switchd_gets_its_port() -> None:
    assert endpoint_of("bfruntime://h", None, 2, Tls()) == Endpoint("h:50052", 0, 2, bfruntime=True)


@pytest.mark.parametrize(
    ("option", "number", "bound"),
    [
        ("--thrift-port", 0, 1),
        ("--thrift-port", 65_536, 65_535),
        ("--device-id", 2**64, 2**64 - 1),
        ("--election-id", 2**128, 2**128 - 1),
    ],
)
def test_a_number_that_the_protocol_cannot_carry_is_an_input_error(
    option: str, number: int, bound: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = tmp_path / "x.yaml"
    experiment.write_text(EXPERIMENT)
    for command in ("apply", "watch"):
        assert run_cli([command, str(experiment), option, str(number)]) == 2
        said = capsys.readouterr().err
        assert f"'{option}'" in said
        assert f" equal to {bound} " in said


@pytest.mark.parametrize(("device_id", "election_id"), [(2**32, 2), (0, 2**32)])
def test_an_id_that_bfruntime_cannot_carry_is_an_input_error(device_id: int, election_id: int) -> None:
    with pytest.raises(InputError, match="4294967296: too large for BfRuntime; valid: at most 4294967295"):
        endpoint_of("bfruntime://h", device_id, election_id, Tls())
