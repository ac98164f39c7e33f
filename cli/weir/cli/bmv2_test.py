# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
from pathlib import Path

import pytest

from weir.cli.bmv2 import CLI_NAME, NAMES, link_names
from weir.cli.main import run_cli


def test_installed_names_take_the_command_line_of_bmv2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "bin"
    assert run_cli(["bmv2", "install", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["links"] == [str(folder / name) for name in (*NAMES, CLI_NAME)]
    for link in said["links"][: len(NAMES)]:
        shown = subprocess.run([link, "--version"], capture_output=True, text=True, timeout=20)
        assert "(weir-switch " in shown.stdout, shown.stderr


def test_it_says_what_to_do_and_may_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run_cli(["bmv2", "install", str(tmp_path)]) == 0
    assert f"export PATH={tmp_path}:$PATH\n" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*NAMES, CLI_NAME])


def test_another_program_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "simple_switch"
    other.write_text("bmv2")
    assert run_cli(["bmv2", "install", str(tmp_path)]) == 2
    refused = f"weir: {other} is there and no link to weir-switch; give another folder, or remove it\n"
    assert capsys.readouterr().err == refused
    assert [path.name for path in tmp_path.iterdir()] == ["simple_switch"]


def test_links_to_a_switch_that_has_gone_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "simple_switch").symlink_to(tmp_path / "gone" / "weir-switch")
    link_names(tmp_path, Path("/new/weir-switch"))
    assert (tmp_path / "simple_switch").readlink() == Path("/new/weir-switch")
