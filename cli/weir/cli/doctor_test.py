# SPDX-License-Identifier: Apache-2.0
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from weir.cli import doctor
from weir.cli.doctor import (
    Check,
    doctor_command,
    pipeline_check,
    python_check,
    version_check,
    version_of,
    virtual_time_check,
    virtual_time_check_here,
)
from weir.cli.main import run_cli
from weir.kernel.store import KernelStore

HEALTHY = Check("iperf3", True, True, "iperf 3.12")
LACKING = Check("tcpdump", True, False, "not installed", "sudo apt-get install tcpdump")
OPTIONAL = Check("p4c", False, False, "not on PATH", "to change the pipeline: see p4c")


def show(monkeypatch: pytest.MonkeyPatch, *checks: Check, as_json: bool = False) -> tuple[int, str]:
    def given() -> Iterator[Check]:
        yield from checks

    monkeypatch.setattr(doctor, "run_checks", given)
    shown = io.StringIO()
    code = doctor_command(as_json=as_json, console=Console(file=shown, width=100))
    return code, shown.getvalue()


def test_a_missing_requirement_gives_exit_code_1_and_the_command_that_fixes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, shown = show(monkeypatch, HEALTHY, LACKING)
    assert code == 1
    assert "missing  tcpdump  not installed" in shown
    assert "tcpdump: sudo apt-get install tcpdump" in shown


def test_optional_tools_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = show(monkeypatch, HEALTHY, OPTIONAL)
    assert code == 0
    assert "optional  p4c" in shown
    assert "Ready to run." in shown


def test_json_has_every_check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = show(monkeypatch, HEALTHY, LACKING, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert code == 1
    assert answer["ok"] is False
    assert answer["checks"][1] == {
        "name": "tcpdump",
        "required": True,
        "ok": False,
        "found": "not installed",
        "mend": "sudo apt-get install tcpdump",
    }


def test_python_3_10_is_too_old() -> None:
    assert not python_check((3, 10, 14)).ok
    assert python_check((3, 11, 0)).ok


def test_a_compiled_part_of_another_version_must_be_rebuilt() -> None:
    assert version_check("weir-switch", "0.0.9", "0.1.0") == Check(
        "weir-switch", True, False, "0.0.9, but weir is 0.1.0", "make setup"
    )
    assert version_check("weir-switch", "0.1.0", "0.1.0").ok


def test_a_missing_pipeline_fails_with_its_path(tmp_path: Path) -> None:
    check = pipeline_check(tmp_path)
    assert (check.ok, check.mend) == (False, "make p4")
    assert check.found.startswith(f"{tmp_path}/weir.p4info.txtpb: no such file")


def test_a_program_that_fails_has_no_version() -> None:
    assert version_of(["false"]) is None
    assert version_of(["/nonexistent/program"]) is None


def test_each_congestion_control_of_the_experiments_is_checked() -> None:
    text = (Path(__file__).parents[3] / "experiments" / "demo.yaml").read_text()
    for name in doctor.CONGESTION_CONTROLS:
        assert f"congestion_control: {name}" in text


def test_every_check_on_this_machine_has_a_finding_and_a_fix_if_it_fails() -> None:
    checks = list(doctor.run_checks())
    names = [check.name for check in checks]
    for name in ("namespaces", "veth", "AF_PACKET", "congestion control bbr", "weir-switch", "weir_core"):
        assert name in names
    for check in checks:
        assert check.found, check
        assert check.ok or check.mend, check


def test_virtual_time_without_a_kernel_names_the_command_that_builds_one(tmp_path: Path) -> None:
    check = virtual_time_check(KernelStore(tmp_path / "kernels"))
    assert (check.required, check.ok, check.mend) == (False, False, "weir kernel build")
    assert check.found == f"no kernel in {tmp_path}/kernels"


def test_virtual_time_of_a_user_without_a_home_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    check = virtual_time_check_here()
    assert (check.required, check.ok, check.mend) == (False, False, "XDG_CACHE_HOME=DIR in the environment")
    assert "no home directory" in check.found


def test_hosts_and_a_switch_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["doctor", "--testbed", "x.yaml", "--target", "tofino", "--address", "192.0.2.1"]) == 2
    assert capsys.readouterr().err == (
        "weir: --testbed with --target or --address; valid: hosts, or a switch\n"
    )
