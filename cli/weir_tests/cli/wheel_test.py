# SPDX-License-Identifier: Apache-2.0
"""The wheel contains no tests or test doubles."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[3]
TEST_FILE = re.compile(r"_test\.py$|/conftest\.py$|weir_tests|/testing/|scenario")


@pytest.fixture(scope="module", name="wheel")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    (path,) = WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]
    )
    return zipfile.ZipFile(path)


def test_no_test_and_no_double_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert len([name for name in names if name.endswith(".py")]) > 150
    assert [name for name in names if TEST_FILE.search(name) and "synthetic/scenarios" not in name] == []


def test_no_module_in_the_wheel_imports_a_double(wheel: zipfile.ZipFile) -> None:
    modules = [name for name in wheel.namelist() if name.endswith(".py")]
    assert [name for name in modules if b"weir_tests" in wheel.read(name)] == []
