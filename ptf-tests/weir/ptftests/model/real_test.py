# SPDX-License-Identifier: Apache-2.0
"""The pipeline's tests on the real model, where it is installed; `make ptf` runs all of them."""

import os
import subprocess
import sys

import pytest

from weir.ptftests.__main__ import TOFINO1_BINARY
from weir.ptftests.model import harness
from weir.ptftests.table import ROOT

PROGRAM = ROOT / TOFINO1_BINARY
GROUPS = ("forwarding", "verdicts", "drops")


def run(*arguments, path=os.environ["PATH"]):
    command = [sys.executable, "-m", "weir.ptftests", "--target", "tofino1-model", *arguments]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "ptf-tests")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)


def test_a_machine_without_the_model_skips_all_and_says_why(tmp_path):
    done = run("--logs", str(tmp_path), path="")
    assert done.returncode == 0
    assert done.stdout.startswith("SKIP all tests on tofino1-model: tofino_test_harness is not on PATH")


def test_the_pipelines_tests_pass_on_the_model(tmp_path):
    problem = harness.problem()
    if problem is not None:
        pytest.skip(f"tofino: {problem}")
    if not PROGRAM.is_file():
        pytest.skip(
            "p4c: make ptf TARGET=tofino1-model compiles the program, with p4c-barefoot and bfas on PATH"
        )
    done = run("--program", str(PROGRAM), "--logs", str(tmp_path), *GROUPS)
    assert done.returncode == 0, done.stdout + done.stderr
