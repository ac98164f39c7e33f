# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

from weir.ptf import __main__ as command
from weir.ptf.settings import Settings

EXAMPLE = Path(__file__).parents[2] / "example"
PROGRAM, P4INFO, TESTS = EXAMPLE / "build/nat.json", EXAMPLE / "build/nat.p4info.txtpb", EXAMPLE / "ptf"
WORDS = ("--program", PROGRAM, "--p4info", P4INFO, "--tests", TESTS)


@pytest.fixture(name="run")
def _run(monkeypatch, tmp_path, capsys):
    """Runs the command without a sandbox; returns exit code, stderr and the settings that it would run."""
    monkeypatch.setattr(command, "find_ptf", lambda _python, _installs: Path(sys.executable))
    monkeypatch.setattr(command, "find_own_program", Path)
    monkeypatch.setattr(command, "run_in_sandbox", lambda _module, _arguments: 0)
    logs = tmp_path / "logs"

    def with_words(*words):
        monkeypatch.setattr(sys, "argv", ["weir.ptf", "--logs", str(logs), *map(str, words)])
        code = command.main()
        settings = Settings.load(logs / "run.json") if (logs / "run.json").exists() else None
        return code, capsys.readouterr().err, settings

    return with_words


def test_the_defaults_are_those_of_the_fields_tests(run):
    code, said, settings = run(*WORDS)
    assert (code, said) == (0, "")
    assert (settings.ports, settings.device_id, settings.cpu_port) == (tuple(range(8)), 0, 510)
    assert settings.push
    assert (settings.program, settings.tests) == (str(PROGRAM), str(TESTS))


def test_names_and_options_may_stand_in_any_order(run):
    _, _, settings = run("nat", *WORDS, "^nat.Slow", "--ports", "1-2", "--test-params", "a=1", "--no-push")
    assert settings.names == ("nat", "^nat.Slow")
    assert settings.ports == (1, 2)
    assert settings.test_params == {"a": "1"}
    assert not settings.push


def test_what_follows_two_dashes_is_ptfs(run):
    _, _, settings = run(*WORDS, "nat", "--", "--failfast", "--pypath", "lib")
    assert (settings.names, settings.ptf_options) == (("nat",), ("--failfast", "--pypath", "lib"))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        (
            "--program",
            "nothing.json",
            "--program nothing.json: no such file; valid: the output of p4c-bm2-ss",
        ),
        ("--program", P4INFO, "nat.p4info.txtpb: not JSON: "),
        ("--p4info", "nothing.txtpb", "--p4info nothing.txtpb: no such file; valid: "),
        ("--p4info", PROGRAM, "nat.json: not a P4Info: "),
        ("--tests", "nothing", "--tests nothing: no such folder; valid: a folder of PTF tests"),
        ("--tests", EXAMPLE / "build", "build: no tests; valid: a folder with .py files"),
        ("--ports", "0", "--ports 0: no ports; valid: "),
        ("--cpu-port", "3", "--cpu-port 3 is one of --ports 8; valid: another number"),
        ("--test-params", "a", "--test-params a: not NAME=VALUE; valid: "),
    ],
)
def test_bad_input_is_named_with_what_would_be_valid(run, option, value, said):
    code, error, _ = run(*WORDS, option, value)
    assert code == 2
    assert said in error
    assert error.startswith("ptf: ")


@pytest.mark.parametrize(
    ("python", "installs"),
    [
        ((), "pip install 'weir-policer[ptf]'"),
        (("--python", "/usr/bin/python3"), "/usr/bin/python3 -m pip install ptf"),
    ],
)
def test_without_ptf_the_command_that_installs_it_is_named(monkeypatch, capsys, python, installs):
    monkeypatch.setattr("weir.ptf.program._WHERE", "")
    monkeypatch.setattr(sys, "argv", ["weir.ptf", *map(str, WORDS), *python])
    assert command.main() == 2
    assert capsys.readouterr().err.endswith(f"; install it with: {installs}\n")


def test_a_python_that_is_not_there_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["weir.ptf", *map(str, WORDS), "--python", "/nothing/python"])
    assert command.main() == 2
    assert (
        capsys.readouterr().err
        == "ptf: /nothing/python: No such file or directory; valid: a Python that has PTF\n"
    )
