# SPDX-License-Identifier: Apache-2.0
"""The man page has every command and option, and formatters accept it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from weir.cli.main import app, run_cli
from weir.cli.manual import man_page, manual_of

PAGE = man_page(app, "1.2.3")


def formatted(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    if shutil.which(argv[0]) is None:
        pytest.skip(f"{argv[0]}: not on PATH; sudo apt-get install {argv[0]}")
    return subprocess.run(argv, input=PAGE, capture_output=True, text=True, check=False)


def test_the_manual_describes_every_command_and_its_options() -> None:
    program, *commands = manual_of(app)
    names = [
        f"weir {info.name or info.callback.__name__}" for info in app.registered_commands if info.callback
    ]
    nested = [
        *("weir kernel build", "weir kernel list", "weir classifier train", "weir classifier judge"),
        "weir bmv2 install",
    ]
    assert [*names, *nested] == [command.name for command in commands]
    assert {parameter.form for parameter in program.parameters} >= {"--version", "--man", "-h, --help"}
    by_name = {command.name: command for command in commands}
    assert [parameter.form for parameter in by_name["weir trace"].parameters][:3] == [
        "FILE…",
        "-o, --out FILE",
        "--flow SRC:PORT-DST:PORT",
    ]
    assert by_name["weir evaluate"].usage == "weir evaluate [OPTIONS] [RUN…]"


def test_every_option_of_every_command_is_in_the_page_as_groff_formats_it() -> None:
    shown = formatted(["groff", "-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=200n"])
    assert shown.returncode == 0
    assert shown.stderr == ""
    text = re.sub(r"\s+", " ", shown.stdout)
    for command in manual_of(app):
        assert command.name in text
        for parameter in command.parameters:
            assert parameter.form in text, (command.name, parameter)


def test_mandoc_has_no_warning() -> None:
    assert formatted(["mandoc", "-Tlint", "-Wwarning"]).stdout == ""


def test_lines_that_begin_with_a_dot_or_have_a_backslash_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    small = typer.Typer(name="x", help="X.\n\n.B is text, C:\\new too")

    @small.callback()
    def _main() -> None: ...

    @small.command()
    def only() -> None: ...

    page = man_page(small, "1")
    assert "\\&.B is text, C:\\enew too" in page


def test_the_date_is_that_of_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert man_page(app, "1.2.3").startswith('.TH WEIR 1 1970-01-02 "weir 1.2.3"\n')


def test_man_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--man"]) == 0
    assert capsys.readouterr().out.startswith(".TH WEIR 1 ")
