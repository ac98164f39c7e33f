# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest

from weir.cli.main import run_cli
from weir_tests.kernel.fake_source import make_source

DEMO = Path(__file__).parents[3] / "experiments" / "demo.yaml"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "cache" / "weir" / "kernels"


def test_a_kernel_is_built_and_listed(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = make_source(tmp_path / "linux")
    assert run_cli(["kernel", "build", "--source", str(tree), "--name", "mine"]) == 0
    shown = capsys.readouterr()
    steps = "reading the source, copying the source, configuring, compiling, booting, removing the source"
    assert shown.err == "".join(f"  {step}\n" for step in steps.split(", "))
    assert shown.out.startswith("mine: Linux 6.12.9-rc1, built in 0:")
    assert shown.out.endswith(
        "congestion controls: bbr reno\n"
        "not repeatable: weir's patch for the guest's entropy does not apply to this source\n"
    )
    assert run_cli(["kernel", "build", "--source", str(tree), "--name", "mine", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["new"], again["name"], again["congestion_controls"]) == (False, "mine", ["bbr", "reno"])
    assert run_cli(["kernel", "list"]) == 0
    assert "mine  6.12.9-rc1  linux   –        no          bbr reno" in capsys.readouterr().out
    assert run_cli(["kernel", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert Path(listed["folder"]).parent == cache / "built"


def test_without_a_kernel_the_list_names_the_command(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["kernel", "list"]) == 0
    assert capsys.readouterr().out == f"no kernel in {cache}; build one with: weir kernel build\n"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["--source", "/nonexistent"], 2, "weir: /nonexistent: no such folder; valid: "),
        (["--patch", "/nonexistent"], 2, "weir: /nonexistent: No such file or directory; valid: "),
        (["--name", "a/b"], 2, "weir: 'a/b' cannot be the name of a kernel; valid: "),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(["kernel", "build", *arguments]) == code
    shown = [text for text in capsys.readouterr().err.splitlines() if text.startswith("weir: ")]
    assert len(shown) == 1
    assert shown[0].startswith(line)


def test_a_run_on_a_kernel_that_does_not_exist_makes_no_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    assert run_cli(["run", str(DEMO), "--runs", str(runs), "--kernel", "bbr3"]) == 2
    assert capsys.readouterr().err == (
        "weir: no kernel 'bbr3'; none is built yet; build one with: weir kernel build\n"
    )
    assert not runs.exists()


def test_a_campaign_is_planned_without_its_kernel_but_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """bbr-dominant names congestion controls that no kernel of Debian has, and wants those left out."""
    note = (
        "weir: no kernel '6.12'; none is built yet; build one with: weir kernel build; or in real time: "
        "--time real\n"
    )
    command = ["campaign", "bbr-dominant", "--runs", str(tmp_path / "runs")]
    assert run_cli([*command, "--dry-run"]) == 0
    shown = capsys.readouterr()
    assert shown.err == note
    assert "120 runs, 0 done, 120 to do" in shown.out
    assert run_cli([*command, "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["virtual_seconds_left"], plan["plan"][0]["kernel"]) == (120 * 120, None)
    assert run_cli(command) == 2
    assert capsys.readouterr().err == note
    assert not (tmp_path / "runs").exists()


def test_a_campaign_that_names_its_kernel_is_not_offered_real_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_cli(["campaign", "bbr-cwnd-gain", "--quick"]) == 2
    assert capsys.readouterr().err.endswith("none is built yet; build one with: weir kernel build\n")


def test_options_of_virtual_time_are_refused_in_real_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", str(DEMO), "--time", "real", "--kernel", "6.12"]) == 2
    assert capsys.readouterr().err == (
        "weir: --kernel and --memory are of a run in virtual time; valid: --time virtual\n"
    )
