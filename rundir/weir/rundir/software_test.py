# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.rundir import software


def test_in_a_checkout_the_commit_and_the_makefile_are_named() -> None:
    assert software.project_commit() is not None
    assert software.repair_command() == "make setup"
    assert software.repair_command("make p4") == "make p4"


def test_an_installed_wheel_inside_another_repository_has_no_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside_this_repository = Path(software.__file__).parent
    monkeypatch.setattr(software, "_ROOT", inside_this_repository)
    assert software.project_commit() is None


def test_an_installed_wheel_is_repaired_by_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(software, "_ROOT", tmp_path)
    assert software.repair_command() == (
        "pip install --force-reinstall --no-deps weir-policer (or the wheel's file)"
    )


def test_the_version_is_that_of_the_distribution() -> None:
    assert software.weir_version().startswith("0.")
