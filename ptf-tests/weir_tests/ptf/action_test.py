# SPDX-License-Identifier: Apache-2.0
"""The action's steps, run as a runner does, in a second repository whose program is not weir's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from weir.topo.sandbox import sandbox_problem
from weir_tests.ptf.action import ROOT, Job
from weir_tests.ptf.ordinary_user import NOBODY, as_ordinary_user

EXAMPLE = ROOT / "ptf-tests" / "example"
WORKFLOW = ".github/workflows/ptf.yml"
TESTS = [
    "AnInsideHostLeavesWithItsOutsideAddress",
    "AnAnswerReachesTheInsideHost",
    "PacketsAndBytesOfATranslationAreCounted",
    "AnUnknownHostIsShownToTheController",
    "APacketOfTheControllerLeavesThroughItsPort",
]
WRONG = """
import nat
from ptf.testutils import send_packet, simple_udp_packet, verify_packet


class TheSourceIsKept(nat.NatTest):
    def runTest(self) -> None:
        packet = simple_udp_packet(ip_src=nat.HOST, ip_dst=nat.SERVER)
        send_packet(self, nat.INSIDE, packet)
        verify_packet(self, packet, nat.OUTSIDE)
"""
PLAIN = """
import importlib.util, sys, unittest


class WeirIsNotHere(unittest.TestCase):
    def runTest(self) -> None:
        print("the tests' environment is", sys.prefix)
        self.assertIsNone(importlib.util.find_spec("weir"))
"""
INSTALL, TEST = "Install weir and PTF", "Test"


@pytest.fixture(scope="module", autouse=True)
def _namespaces_are_possible() -> None:
    problem = sandbox_problem()
    if problem is not None:
        pytest.skip(f"kernel: {problem}")


@pytest.fixture(scope="module", name="wheelhouse")
def _wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PTF and scapy as wheels, so that every job installs them without the network."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "download", "-q", "--no-deps", "-d", folder, "-r", ROOT / "ptf-tests" / "requirements.txt"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"registry: cannot be reached: {done.stderr.strip().splitlines()[-1]}")
    return folder


@pytest.fixture(scope="module", name="built")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the action's steps build."""
    temp = tmp_path_factory.mktemp("build")
    job = Job(EXAMPLE, temp, call_in_workflow(EXAMPLE))
    assert job.run(until=INSTALL) == 0, job.output
    assert job.outputs["steps.key.outputs.key"].startswith("weir-")
    (wheel,) = (temp / "weir-wheel").glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Runner:
    """A machine on which the steps before the tests have run, as a user without privileges."""

    temp: Path
    prefix: tuple[str, ...]
    """The command that becomes this user; empty if the current user has no privileges."""
    environment: Mapping[str, str]


@pytest.fixture(scope="module", name="runner")
def _runner(built: Path, wheelhouse: Path) -> Iterator[Runner]:
    """weir as the action installs it."""
    with tempfile.TemporaryDirectory() as name:
        temp = Path(name)
        wheel = shutil.copy(built, temp)
        shutil.copytree(wheelhouse, temp / "wheelhouse")
        for folder in (temp, temp / "wheelhouse"):
            folder.chmod(0o755)
        prefix: tuple[str, ...] = ()
        if os.geteuid() == 0:
            prefix = as_ordinary_user(ROOT)
            os.chown(temp, NOBODY, NOBODY)
        environment = {
            "HOME": name,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(temp / "wheelhouse"),
            "PIP_NO_DEPS": "1",
            # For weir-switch, where the wheel has no compiled programs.
            "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
        }
        job = Job(EXAMPLE, temp, {**call_in_workflow(EXAMPLE), "wheel": wheel}, environment, prefix)
        assert job.run(until=TEST) == 0, job.output
        # weir's dependencies are those of the tests' environment, instead of downloads.
        (packages,) = (temp / "weir" / "lib").glob("python*/site-packages")
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        yield Runner(temp, prefix, environment)


@pytest.fixture(params=["current user", "ordinary user"], name="job")
def _job(request: pytest.FixtureRequest, runner: Runner) -> Iterator[Job]:
    """The call of the action in a second repository."""
    as_other = request.param == "ordinary user"
    if as_other and not runner.prefix:
        pytest.skip("user: the current user is an ordinary user already")
    with second_repository(runner, runner.prefix if as_other else ()) as job:
        yield job


@contextmanager
def second_repository(runner: Runner, prefix: tuple[str, ...]) -> Iterator[Job]:
    """The call of the action in a new repository; `prefix` becomes the user of the job."""
    shutil.rmtree(runner.temp / "ptf-logs", ignore_errors=True)  # those of the other user
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        repository = folder / "repository"
        shutil.copytree(EXAMPLE, repository)
        git = ["git", "-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A translator"]):
            subprocess.run([*git, *words], cwd=repository, check=True)
        home = folder / "home"  # of this user: scapy keeps a cache there
        home.mkdir()
        if prefix:
            os.chown(home, NOBODY, NOBODY)
        environment = {**runner.environment, "HOME": str(home)}
        yield Job(repository, runner.temp, call_in_workflow(repository), environment, prefix)


def call_in_workflow(repository: Path) -> dict[str, str]:
    """The `with:` of the action's call in the repository's workflow."""
    steps = YAML(typ="safe").load(repository / WORKFLOW)["jobs"]["ptf"]["steps"]
    (call,) = [step for step in steps if re.match("OWNER/weir@", step["uses"])]
    return dict(call["with"])


def test_tests_that_pass_end_the_step_with_0_and_are_all_listed(job: Job) -> None:
    assert job.run(first=TEST) == 0, job.output
    assert re.findall(r"^passed +nat\.(\w+) ", job.output, re.MULTILINE) == TESTS
    assert "5 passed, 0 failed, 0 skipped" in job.output
    suite = ElementTree.parse(Path(job.result("logs")) / "junit.xml").getroot()[0]
    assert [case.get("name") for case in suite] == TESTS
    # The repository gets nothing from the run.
    status = ["git", "status", "--porcelain"]
    assert subprocess.run(status, cwd=job.repository, capture_output=True, text=True).stdout == ""


def test_a_test_that_fails_ends_the_step_with_1_and_shows_its_name_and_trace(job: Job) -> None:
    (job.repository / "ptf" / "wrong.py").write_text(WRONG)
    assert job.run(first=TEST) == 1
    assert "wrong.TheSourceIsKept ... FAIL" in job.output
    assert f'File "{job.repository}/ptf/wrong.py", line 10, in runTest' in job.output
    assert "AssertionError: Expected packet was not received on device 0, port 2." in job.output
    assert "5 passed, 1 failed, 0 skipped" in job.output
    logs = Path(job.result("logs"))
    assert f"ptf: logs, frames and results: {logs}" in job.output
    assert {"junit.xml", "ptf.log", "ptf.pcap", "stats.json", "weir-switch.log"} <= {
        path.name for path in logs.iterdir()
    }


def test_arguments_of_the_call_reach_the_tests(job: Job) -> None:
    job.given = {**job.given, "args": "--device-id 7 nat.AnAnswerReachesTheInsideHost", "ports": "1-2"}
    assert job.run(first=TEST) == 0, job.output
    assert "1 passed, 0 failed, 0 skipped" in job.output


def test_tests_with_requirements_run_in_a_separate_environment(runner: Runner) -> None:
    with second_repository(runner, runner.prefix) as job:
        (job.repository / "plain").mkdir()
        (job.repository / "plain" / "plain.py").write_text(PLAIN)
        (job.repository / "requirements.txt").write_text("scapy\n")
        (wheel,) = runner.temp.glob("*.whl")
        job.given = {**job.given, "tests": "plain", "requirements": "requirements.txt", "wheel": str(wheel)}
        assert job.run(first=INSTALL) == 0, job.output
        assert f"the tests' environment is {runner.temp}/weir-tests" in job.output
        assert "1 passed, 0 failed, 0 skipped" in job.output


def test_only_steps_without_effect_on_the_result_use_other_actions() -> None:
    job = Job(EXAMPLE, EXAMPLE, call_in_workflow(EXAMPLE))
    used = {step["uses"]: step["if"] for step in job.action["runs"]["steps"] if "uses" in step}
    assert used == {
        "actions/setup-python@v5": "inputs.python-version != ''",
        "actions/cache@v4": "inputs.wheel == ''",
    }


def test_the_pages_workflow_is_the_examples() -> None:
    lines = (EXAMPLE / WORKFLOW).read_text().splitlines()
    call = next(number for number, line in enumerate(lines) if "OWNER/weir" in line)
    page = (ROOT / "docs" / "ptf-in-your-ci.md").read_text()
    assert "\n".join(line.removeprefix("      ") for line in lines[call - 1 : call + 2]) in page


def test_the_extra_installs_what_the_action_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "ptf-tests" / "requirements.txt").read_text().splitlines()
    assert project["optional-dependencies"]["ptf"] == [line for line in lines if not line.startswith("#")]
