# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

from weir.ptf.program import PtfMissingError
from weir.ptftests import __main__ as runner


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs the runner with arguments, with PTF as installed. Returns the exit code and the output."""
    monkeypatch.setattr(runner, "ptf_program", lambda: Path(sys.executable))

    def with_arguments(*arguments):
        monkeypatch.setattr(sys, "argv", ["ptf", "--logs", str(tmp_path), *arguments])
        code = runner.main()
        said = capsys.readouterr()
        return code, said.out + said.err

    return with_arguments


def test_a_target_that_is_not_on_path_is_skipped_and_named(run, monkeypatch):
    monkeypatch.setenv("PATH", "")
    code, said = run("--target", "bmv2")
    assert code == 0
    assert said.startswith("SKIP all tests on bmv2: simple_switch_grpc is not on PATH")


def test_tofino_without_an_address_says_what_is_missing(run):
    assert run("--target", "tofino") == (
        2,
        "ptf: tofino is not started from here; valid: --address and --port-map\n",
    )


def test_an_address_needs_a_port_map(run):
    code, said = run("--target", "tofino", "--address", "switch:9559")
    assert (code, said) == (2, "ptf: valid: --address and --port-map together, or neither\n")


def test_a_program_that_is_not_there_is_named(run):
    code, said = run("--program", "nothing.bin")
    assert code == 2
    assert "nothing.bin: no such file" in said


def test_a_switch_that_does_not_answer_is_named(run, tmp_path):
    ports = tmp_path / "ports.json"
    entries = [f'{{"ptf_port": {port}, "p4_port": {port}, "iface_name": "lo"}}' for port in (1, 2, 3, 4)]
    ports.write_text(f"[{', '.join(entries)}]")
    # Port 9 (discard) of the loopback serves no gRPC.
    code, said = run("--target", "tofino", "--address", "127.0.0.1:9", "--port-map", str(ports))
    assert code == 2
    assert "no P4Runtime at 127.0.0.1:9" in said


def test_without_ptf_the_command_that_installs_it_is_named(run, monkeypatch):
    def missing():
        raise PtfMissingError("PTF is not installed; install it with: make ptf")

    monkeypatch.setattr(runner, "ptf_program", missing)
    assert run() == (2, "ptf: PTF is not installed; install it with: make ptf\n")


def test_a_switch_with_packet_ports_needs_no_sandbox(run, monkeypatch):
    started = []

    def start(_module, arguments, *, isolated):
        started.append((arguments[0], isolated))
        return 0

    monkeypatch.setattr(runner, "run_in_sandbox", start)
    for target in ("embedded", "embedded-nn"):
        assert run("--target", target) == (0, "")
    assert started == [("embedded", True), ("embedded-nn", False)]
