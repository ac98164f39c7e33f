# SPDX-License-Identifier: Apache-2.0
"""The command line: help, exit codes, and errors as lines on stderr instead of tracebacks."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from weir.cli import main as cli
from weir.cli.errors import InputError
from weir.cli.main import run_cli
from weir.cli.options import folder, writable
from weir_tests.kernel.made_up_kernels import add_kernel

COMMANDS = [
    "doctor",
    "demo",
    "run",
    "plan",
    "apply",
    "status",
    "watch",
    "stratum",
    "report",
    "export",
    "import",
    "losses",
    "detect",
    "schema",
]
DEMO = Path(__file__).parents[3] / "experiments" / "demo.yaml"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f" {command} " in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_takes_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli([command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--version"]) == 0
    assert capsys.readouterr().out.startswith("weir 0.")


def test_schema_is_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "weir experiment"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["rum"], "weir: No such command 'rum'."),
        (["run"], "weir: Missing argument 'EXPERIMENT'. Try 'weir run --help'."),
        (["losses"], "weir: Missing argument 'FILE…'. Try 'weir losses --help'."),
        (["run", "--time", "x"], "weir: Invalid value for '--time': 'x' is not one of 'real', 'virtual'."),
        (["doctor", "--jsn"], "weir: No such option: --jsn"),
        (["detect", "pearson", "a.pcap"], "weir: no detector 'pearson'; valid: "),
        (["report", "/nonexistent"], "weir: /nonexistent: no manifest.json in it; valid: a run directory"),
    ],
)
def test_an_invalid_argument_is_one_line_and_exit_code_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(line)
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


def test_a_config_with_mistakes_is_one_line_per_mistake_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "x.yaml"
    config.write_text(DEMO.read_text().replace("burst: 20 ms", "burst: 20"))
    assert run_cli(["run", str(config), "--runs", str(tmp_path / "runs")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(
        line.startswith(f"weir: {config}:") and ".burst: 20 has no unit; valid: " in line for line in lines
    )
    assert not (tmp_path / "runs").exists()


def test_a_campaign_below_run_is_refused_before_its_folder_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "grid.yaml"
    hosts = "hosts: {a: {}, b: {}}\nflows: [{name: f, from: a, to: b, duration: 1 s}]\n"
    config.write_text(f"name: grid\nrepeats: 2\nmatrix: {{}}\nvariables: {{}}\n{hosts}")
    assert run_cli(["campaign", str(config), "--runs", "/run/weir-test"]) == 2
    assert capsys.readouterr().err.startswith("weir: /run/weir-test: a run cannot write there, as")
    assert not Path("/run/weir-test").exists()


def test_the_error_of_a_missing_config_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", str(tmp_path / "no.yaml")]) == 2
    assert capsys.readouterr().err == (
        f"weir: {tmp_path}/no.yaml: No such file or directory; valid: a readable experiment file in YAML\n"
    )


def test_demo_runs_the_shipped_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Path] = []

    def run(config: Path, _runs: Path, **_options: bool) -> int:
        ran.append(config)
        return 0

    monkeypatch.setattr("weir.cli.demo.run_command", run)
    assert run_cli(["demo"]) == 0
    assert [path.resolve() for path in ran] == [DEMO]


def break_schema(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> str:
        raise error

    monkeypatch.setattr("weir.controlplane.config.schema_text", fail)


def test_a_programming_error_is_one_line_unless_weir_debug_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    break_schema(monkeypatch, KeyError("colour"))
    monkeypatch.delenv("WEIR_DEBUG", raising=False)
    assert run_cli(["schema"]) == 1
    assert capsys.readouterr().err == (
        "weir: internal error: KeyError: 'colour'; WEIR_DEBUG=1 shows where, please report it\n"
    )
    monkeypatch.setenv("WEIR_DEBUG", "1")
    with pytest.raises(KeyError):
        run_cli(["schema"])


def test_an_os_error_names_the_file_and_not_the_errno(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    break_schema(monkeypatch, OSError(28, "No space left on device", "runs/demo/result.json"))
    assert run_cli(["schema"]) == 10
    assert capsys.readouterr().err == "weir: runs/demo/result.json: No space left on device\n"


def test_ctrl_c_is_exit_code_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    break_schema(monkeypatch, KeyboardInterrupt())
    assert run_cli(["schema"]) == 130
    assert capsys.readouterr().err == ""


def test_the_program_exits_with_the_code_of_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["weir", "rum"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2


def test_a_table_is_printed_where_the_encoding_lacks_its_characters(tmp_path: Path) -> None:
    add_kernel(tmp_path / "weir" / "kernels", "6.12", ("cubic",))
    done = subprocess.run(
        [sys.executable, "-c", "from weir.cli.main import main; main()", "kernel", "list"],
        env=os.environ
        | {"PYTHONIOENCODING": "iso-8859-1", "XDG_CACHE_HOME": str(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        encoding="iso-8859-1",
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert " ?  " in done.stdout  # – of a kernel without patches


OUTPUTS = (
    ["topology", "demo", "-o"],
    ["trace", "a.pcap", "-o"],
    ["export", "runs/demo/latest", "-o"],
    ["classifier", "train", "runs/bbr-ml", "-o"],
)


@pytest.mark.parametrize("command", OUTPUTS)
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", ".: is a folder"),
        ("folder", "folder: is a folder"),
        ("nowhere/x", "nowhere/x: nowhere is no folder; valid: a file in a folder that exists"),
        ("pipe", "pipe: is a device or a pipe"),
        ("/dev/null", "/dev/null: is a device or a pipe"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    command: list[str],
    name: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    os.mkfifo("pipe")
    # The callback alone: as root, a command that did not refuse a device would replace it.
    with pytest.raises(InputError, match=f"^{re.escape(problem)}"):
        writable(Path(name))
    if name != "/dev/null":
        assert run_cli([*command, name]) == 2
        assert capsys.readouterr().err.startswith(f"weir: {problem}")


def test_a_file_that_exists_may_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    assert writable(tmp_path / "old") == tmp_path / "old"
    assert writable(tmp_path / "new") == tmp_path / "new"


@pytest.mark.parametrize("name", ["x[old].svg", "x[/old].svg"])
def test_brackets_in_a_path_are_shown_as_they_are(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    out.parent.mkdir(exist_ok=True)
    assert run_cli(["topology", str(DEMO), "-o", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: demo")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["detect", "shared", "a.pcap"], "--jitter"),
        (["detect", "shared", "a.pcap"], "--clock-error"),
    ],
)
def test_an_infinite_number_is_refused(
    command: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli([*command, option, "inf"]) == 2
    assert capsys.readouterr().err == f"weir: {option} inf: not a finite number; valid: such as 10\n"


MADE_FOLDERS = (
    ["run", "demo", "--runs"],
    ["campaign", "bbr-dominant", "--runs"],
    ["import", "archive.zip", "--runs"],
    ["report", "runs/demo/latest", "--out"],
    ["evaluate", "--out"],
    ["evaluate", "--paths", "--data"],
    ["stratum", "demo", "--out"],
    ["bmv2", "install"],
)
FOLDERS = (["plan", "demo", "--compiled"], ["stratum", "demo", "--out", "new", "--compiled"])


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, name) for command in MADE_FOLDERS for name in ("file", "file/x/y")),
        *((command, name) for command in FOLDERS for name in ("file", "absent")),
    ],
)
def test_what_is_no_folder_is_refused_before_the_work(
    command: list[str],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("archive.zip").touch()
    assert run_cli([*command, name]) == 2
    what = "file is" if name == "file/x/y" else "is"
    assert capsys.readouterr().err == f"weir: {name}: {what} no folder; valid: a folder\n"


def test_a_folder_that_is_made_may_be_missing_with_its_parents(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "new", tmp_path / "new" / "below"):
        assert folder(place) == place


@pytest.mark.parametrize(
    "command",
    [
        ["import"],
        ["classifier", "judge"],
        *(["plan", "demo", option] for option in ("--tls-ca", "--tls-cert", "--tls-key")),
    ],
)
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("folder", "is a folder; valid: a file"),
        ("absent", "No such file or directory; valid: a file"),
        ("file/x", "Not a directory; valid: a file"),
    ],
)
def test_a_file_that_cannot_be_read_is_bad_input(
    command: list[str],
    name: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    more = ["runs/bbr-ml"] if command[0] == "classifier" else []
    assert run_cli([*command, name, *more]) == 2
    assert capsys.readouterr().err == f"weir: {name}: {problem}\n"


@pytest.mark.parametrize("mode", [[], ["--paths"], ["--policing"]])
@pytest.mark.parametrize(
    ("option", "values", "valid"),
    [
        ("--seconds", ("1e+18", "inf", "nan", "1.0"), "2 to 3600"),
        ("--runs", ("1000000000000", "0", "-1"), "1 to 100000"),
        ("--jitter", ("1e+20", "inf", "nan", "-1.0"), "0 to 10000"),
    ],
)
def test_an_evaluation_that_would_not_end_is_refused_with_the_valid_range(
    mode: list[str],
    option: str,
    values: tuple[str, ...],
    valid: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for value in values:
        assert run_cli(["evaluate", *mode, option, value]) == 2
        assert capsys.readouterr().err == f"weir: {option} {value}: out of range; valid: {valid}\n"
