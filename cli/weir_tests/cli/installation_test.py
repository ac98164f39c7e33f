# SPDX-License-Identifier: Apache-2.0
"""The wheel, installed into an empty environment without compilers, works for an ordinary user on its own."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.rundir.software import weir_version
from weir.topo.sandbox import sandbox_problem
from weir.topo.tools import find_tool
from weir_tests.cli.conftest import Distribution
from weir_tests.cli.installed import Installed, install

SWITCH_AND_PLAN = """
import json, subprocess, sys
from pathlib import Path

def plan(programs, ip):
    ports = []
    for number in range(1, 7):
        name = f"port{number}"
        subprocess.run([ip, "link", "add", name, "type", "veth"], check=True)
        subprocess.run([ip, "link", "set", name, "up"], check=True)
        ports += ["--port", f"{number}={name}"]
    subprocess.run([ip, "link", "set", "lo", "up"], check=True)
    command = [programs / "weir-switch", "--p4runtime", "127.0.0.1:9559", *ports]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as switch:
        for line in switch.stdout:
            if "P4Runtime on" in line:
                break
        done = subprocess.run([programs / "weir", "plan", "demo", "--json"], check=False)
        switch.terminate()
    sys.exit(done.returncode)

plan(Path(sys.executable).parent, sys.argv[1])
"""

BECOME = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture(scope="module", name="installed")
def _installed(distribution: Distribution) -> Iterator[Installed]:
    # Not in pytest's folders, which other users may not enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield install(distribution.wheel, folder)


@pytest.fixture(name="namespaces")
def _namespaces() -> None:
    problem = sandbox_problem()
    if problem is not None:
        pytest.skip(f"kernel: {problem}")


def test_pip_finds_no_broken_requirement(installed: Installed) -> None:
    done = installed.run("pip", "check")
    assert done.returncode == 0, done.stdout


def test_the_command_has_the_version_of_the_distribution(installed: Installed) -> None:
    assert installed.run("weir", "--version").stdout == f"weir {weir_version()}\n"


def test_doctor_finds_every_part_of_weir(installed: Installed) -> None:
    checks = {
        check["name"]: check
        for check in json.loads(installed.run("weir", "doctor", "--json").stdout)["checks"]
    }
    for part in ("weir-switch", "weir-collector", "weir_core", "weir_softswitch", "pipeline"):
        assert checks[part]["ok"], checks[part]


def test_doctor_names_pip_and_no_makefile_where_a_program_is_missing(installed: Installed) -> None:
    program = installed.programs / "weir-collector"
    program.rename(program.with_name("away"))
    try:
        checks = json.loads(installed.run("weir", "doctor", "--json").stdout)["checks"]
    finally:
        program.with_name("away").rename(program)
    (check,) = [check for check in checks if check["name"] == "weir-collector"]
    assert not check["ok"]
    assert check["mend"].startswith("pip install --force-reinstall --no-deps weir-policer")


def test_a_shipped_campaign_is_planned_by_its_name(installed: Installed) -> None:
    done = installed.run("weir", "campaign", "wehey-bbr", "--quick", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "16 runs, 0 done" in done.stdout


def test_the_schema_that_a_shipped_experiment_names_lies_beside_it(installed: Installed) -> None:
    (folder,) = installed.folder.glob(
        "venv/lib/python*/site-packages/weir/controlplane/shipped_files/experiments"
    )
    for name, arguments in (("experiment", ()), ("campaign", ("--campaign",))):
        assert (
            installed.run("weir", "schema", *arguments).stdout == (folder / f"{name}.schema.json").read_text()
        )


@pytest.mark.usefixtures("namespaces")
def test_plan_compares_a_shipped_experiment_with_a_running_switch(installed: Installed) -> None:
    flags = ("--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
    enter = [find_tool("unshare"), *flags, "--", str(installed.programs / "python")]
    done = installed.run("python", "-c", BECOME, *enter, "-c", SWITCH_AND_PLAN, find_tool("ip"))
    assert done.returncode == 0, done.stdout + done.stderr
    plan = json.loads(done.stdout)
    assert (plan["phase"], plan["pipeline_loaded"]) == ("shared", False)
    assert plan["changes"] == len(plan["insert"]) + len(plan["modify"]) > 10


@pytest.mark.usefixtures("namespaces")
def test_a_shipped_experiment_runs_by_its_name(installed: Installed) -> None:
    done = installed.run("weir", "run", "plan-change", "--json")
    assert done.returncode == 0, done.stderr
    run = installed.folder / "runs" / "plan-change" / "latest"
    assert (run / "report.html").is_file()
    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["state"], manifest["weir_version"]) == ("complete", weir_version())
    flows = json.loads(done.stdout)["flows"]
    assert {flow["id"] for flow in flows} == {"halved/bbr", "halved/cubic"}
    for flow in flows:
        assert flow["sent"] > flow["received"] > 0, flow
        assert flow["unexplained"] == 0, flow
