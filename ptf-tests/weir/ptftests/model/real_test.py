# SPDX-License-Identifier: Apache-2.0
"""The pipeline's tests on the real model, where it is installed; `make ptf` runs all of them."""

import os
import subprocess
import sys

import pytest

from weir.ptftests.model import harness
from weir.ptftests.model.chips import CHIPS
from weir.ptftests.table import ROOT

GROUPS = ("forwarding", "verdicts", "drops")


pytestmark = pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)


def run(chip, *arguments, path=os.environ["PATH"]):
    command = [sys.executable, "-m", "weir.ptftests", "--target", chip.target, *arguments]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "ptf-tests")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)


def test_a_machine_without_the_model_skips_all_and_says_why(chip, tmp_path):
    done = run(chip, "--logs", str(tmp_path), path="")
    assert done.returncode == 0
    assert done.stdout.startswith(f"SKIP all tests on {chip.target}: {chip.harness} is not on PATH")


def test_the_pipelines_tests_pass_on_the_model(chip, tmp_path):
    problem = harness.problem(chip)
    if problem is not None:
        pytest.skip(f"tofino: {problem}")
    program = ROOT / chip.program
    if not program.is_file():
        pytest.skip(
            f"p4c: make ptf TARGET={chip.target} compiles the program, with p4c-barefoot and bfas on PATH"
        )
    done = run(chip, "--program", str(program), "--logs", str(tmp_path), *GROUPS)
    assert done.returncode == 0, done.stdout + done.stderr
