# SPDX-License-Identifier: Apache-2.0
"""Completion as a shell asks for it: the printed script is sourced, and the program runs for each word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from weir.cli import completion

PROGRAMS = Path(sys.executable).parent
# The script is that of the current shell, so bash itself prints it.
BASH = """
source <(weir --show-completion; :)
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_weir_completion weir
printf '%s\\n' "${COMPREPLY[@]}"
"""


def shell(program: str, arguments: list[str], folder: Path) -> list[str]:
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(folder)}
    ended = subprocess.run(
        [program, *arguments], capture_output=True, text=True, env=environment, cwd=folder, check=True
    )
    return [line for line in ended.stdout.splitlines() if line]


def in_bash(folder: Path, *words: str) -> list[str]:
    return shell("bash", ["--norc", "-c", BASH, "bash", *words], folder)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "runs.zip").touch()
    for path in ("runs/demo/1", "runs/demo/unfinished", "kept"):
        (tmp_path / path).mkdir(parents=True)
    for path in ("runs/demo/1", "kept"):
        (tmp_path / path / "manifest.json").touch()
    (tmp_path / "runs" / "buffers").mkdir()
    (tmp_path / "runs" / "buffers" / "campaign.yaml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["weir", "ru"], ["run"]),
        (["weir", "run", "--pl"], ["--plain"]),
        (["weir", "run", ""], ["demo", "mine.yaml", "plan-change"]),
        (["weir", "campaign", "wehey"], ["wehey-bbr", "wehey-bbr-background", "wehey-bbr-queue"]),
        (["weir", "detect", "loss-s"], ["loss-shifted", "loss-spearman"]),
        (["weir", "report", ""], ["kept", "runs/demo/1"]),
        (["weir", "export", ""], ["kept", "runs/buffers", "runs/demo/1"]),
        (["weir", "import", ""], ["runs.zip"]),
        (["weir", "evaluate", "--detector", "rfc"], ["rfc8382"]),
        (["weir", "losses", "not"], []),  # bash itself completes file names then
    ],
)
def test_bash_gets_commands_options_names_and_files(words: list[str], found: list[str], folder: Path) -> None:
    assert in_bash(folder, *words) == found


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish: not on PATH; sudo apt-get install fish")
def test_fish_completes_commands_and_names(folder: Path) -> None:
    def complete(line: str) -> list[str]:
        script = f"weir --show-completion | source; complete -C '{line}'"
        return [found.partition("\t")[0] for found in shell("fish", ["-c", script], folder)]

    assert complete("weir ru") == ["run"]
    assert complete("weir run d") == ["demo"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh: not on PATH; sudo apt-get install zsh")
def test_the_script_for_zsh_is_accepted_by_zsh(folder: Path) -> None:
    # The second command keeps zsh from replacing itself, so that weir finds it as its shell.
    (script,) = ["\n".join(shell("zsh", ["-f", "-c", "weir --show-completion; true"], folder))]
    assert script.startswith("#compdef weir")
    assert shell("zsh", ["-f", "-n", "-c", script], folder) == []


def test_the_names_of_detectors_are_complete() -> None:
    from weir.analysis.detectors import PAIR_DETECTORS
    from weir.analysis.detectors.policing import POLICING_DETECTORS

    assert sorted(completion.DETECTORS) == sorted([*POLICING_DETECTORS, *PAIR_DETECTORS])


def test_completion_loads_no_slow_package(folder: Path) -> None:
    program = (
        "import sys, weir.cli.main as cli\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "slow = {'numpy', 'pyarrow', 'scipy', 'finsy', 'grpc', 'weir_core'}\n"
        "print(*slow & set(sys.modules), file=sys.stderr)"
    )
    environment = {
        **os.environ,
        "_WEIR_COMPLETE": "complete_bash",
        "COMP_WORDS": "weir\nrun\nd",
        "COMP_CWORD": "2",
    }
    ended = subprocess.run(
        [sys.executable, "-c", program, "run"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=True,
    )
    assert ended.stdout == "demo\n"
    assert ended.stderr == "\n"
