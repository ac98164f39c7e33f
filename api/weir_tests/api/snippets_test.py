# SPDX-License-Identifier: Apache-2.0
"""The Python of README and docs/python.md runs, on a real run; their commands have options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

import weir
from weir.cli.main import app
from weir.topo.sandbox import sandbox_problem
from weir_tests.campaign.made_up_runs import made_up, simulated

ROOT = Path(__file__).parents[3]
CAMPAIGN = """
name: buffers
matrix: {buffer: [1 BDP, 4 BDP]}
hosts:
  client: {delay: 10 ms, rate: 20 Mbit/s, queue: $buffer}
  server: {delay: 10 ms}
flows:
  - {name: mine, from: server, to: client, duration: 10 s, measured: true}
"""
DEMO = {
    "name": "demo",
    "hosts": {"client": {"delay": "10 ms"}, "server": {"delay": "10 ms"}},
    "flows": [{"name": "one", "from": "server", "to": "client", "duration": "3 s", "measured": True}],
    "policers": [{"name": "slow", "rate": "5 Mbit/s", "burst": "20 ms", "match": [{"to": "client"}]}],
}


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    found = re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"{page}: no block of {language}"
    return found


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of real traffic in runs/demo/latest, and a campaign in runs/buffers."""
    if (problem := sandbox_problem()) is not None:
        pytest.skip(f"kernel: {problem}")
    from weir.campaign.load import parse_campaign

    folder = tmp_path_factory.mktemp("snippets")
    weir.run(DEMO, runs=folder / "runs")
    (folder / "runs" / "buffers").mkdir()
    (folder / "runs" / "buffers" / "campaign.yaml").write_text(CAMPAIGN)
    shape = simulated(tmp_path_factory.mktemp("simulated"))
    made_up(parse_campaign(CAMPAIGN), folder / "runs" / "buffers", shape)
    return folder


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks(page, "python"), 1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
    assert len(names["run"].flows) == 1
    if page == "docs/python.md":
        shown = re.sub(r"\d{8}T\d{6}Z", "ID", capsys.readouterr().out)
        # The output of the first example, with the number of flows of this run.
        assert "<Run demo/ID: 1 flow, 0 packets unexplained>\n1 BDP 0\n4 BDP 0\n" in shown
        assert names["drops"].num_rows == len(weir.open_run("runs/demo/latest").telemetry) > 0


def commands() -> list[tuple[str, str]]:
    """Lines of `sh` blocks that call weir, by page."""
    pages = ("README.md", "docs/tutorial.md")
    return [
        (page, line.partition("#")[0].strip())
        for page in pages
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if line.startswith("weir ")
    ]


@pytest.mark.parametrize(("page", "line"), commands())
def test_a_command_of_a_page_is_one_that_weir_takes(page: str, line: str) -> None:
    arguments = shlex.split(line)[1:]
    if arguments == ["--help"]:
        return
    group = typer.main.get_command(app)
    with group.make_context("weir", arguments, resilient_parsing=True) as context:
        name, command, rest = group.resolve_command(context, arguments)
        # Raises for an unknown option, a missing argument, or a value of another type.
        command.make_context(name, rest, parent=context)
