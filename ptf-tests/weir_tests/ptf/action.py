# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of action.yml as a runner of GitHub does: expressions, conditions, files for outputs, bash.

Steps that use another action are not run: without them a job takes longer and has the Python on PATH.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[3]
_EXPRESSION = re.compile(r"\$\{\{\s*(.+?)\s*\}\}")
_COMPARISON = re.compile(r"([\w.-]+)\s*(==|!=)\s*'([^']*)'")
# As a runner starts `shell: bash`.
_BASH = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail")


@dataclass
class Job:
    """One call of the action in a repository, step by step."""

    repository: Path
    temp: Path
    """The runner's folder for this job, RUNNER_TEMP."""
    given: Mapping[str, str]
    """The `with:` of the call."""
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    """A command that changes the user."""
    output: str = ""
    """The output of all steps, stdout and stderr together."""
    outputs: dict[str, str] = field(default_factory=dict)
    """The steps' outputs, as `steps.ID.outputs.NAME`."""

    def __post_init__(self) -> None:
        """Read the action, and check the call as a runner does."""
        self.action: dict[str, Any] = YAML(typ="safe").load(ROOT / "action.yml")
        declared = self.action["inputs"]
        assert set(self.given) <= set(declared), "an input that the action does not have"
        missing = [name for name, one in declared.items() if one.get("required") and name not in self.given]
        assert not missing, f"required: {missing}"

    def run(self, first: str | None = None, until: str | None = None) -> int:
        """Run the steps from the one named `first` to the one before `until`, or before the first that fails.

        Returns the exit code of the last step that ran.
        """
        steps: list[dict[str, Any]] = self.action["runs"]["steps"]
        names = [step["name"] for step in steps]
        start, end = (names.index(name) if name else None for name in (first, until))
        code = 0
        for step in steps[start:end]:
            if code == 0 and "run" in step and self._holds(step.get("if", "")):
                code = self._run(step)
        return code

    def result(self, name: str) -> str:
        """An output of the action."""
        return self._expand(self.action["outputs"][name]["value"])

    def _run(self, step: Mapping[str, Any]) -> int:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "inputs come as variables, so that none is taken for a command"
        script, written = self.temp / "step.sh", self.temp / "output"
        script.write_text(step["run"])
        written.write_text("")
        written.chmod(0o666)
        given = {name: self._expand(str(value)) for name, value in step.get("env", {}).items()}
        runner = {"GITHUB_OUTPUT": str(written), "RUNNER_TEMP": str(self.temp), "CI": "true"}
        done = subprocess.run(
            [*self.prefix, *_BASH, str(script)],
            env={**os.environ, **self.environment, **runner, **given},
            cwd=self.repository,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1200,
            check=False,
        )
        self.output += done.stdout
        for line in written.read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"steps.{step['id']}.outputs.{name}"] = value
        return done.returncode

    def _expand(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self._value(found[1]), text)

    def _value(self, name: str) -> str:
        if name.startswith("inputs."):
            key = name.removeprefix("inputs.")
            return self.given.get(key, self.action["inputs"][key].get("default", ""))
        if name.startswith("steps."):
            return self.outputs.get(name, "")
        return {"github.action_path": str(ROOT), "runner.temp": str(self.temp)}[name]

    def _holds(self, condition: str) -> bool:
        parts = condition.split("&&") if condition else []
        found = [_COMPARISON.fullmatch(part.strip()) for part in parts]
        assert all(found), f"a condition that this runner does not know: {condition}"
        return all((self._value(one[1]) == one[3]) == (one[2] == "==") for one in found if one)
