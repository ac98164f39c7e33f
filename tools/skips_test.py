# SPDX-License-Identifier: Apache-2.0
"""Skipped tests are listed, and where CI=true some are failures; pytest runs on small files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_of_a_kernel():
    pytest.skip("kernel: no IPv6")

@pytest.mark.skipif(True, reason="kernel: no IPv6")
def test_of_another():
    pass

def test_of_a_program():
    pytest.skip("tshark: not on PATH")

@pytest.mark.parametrize("file", [])
def test_of_each_file(file):
    pass
"""
FILE = """
import pytest

pytest.importorskip("no_such_module", reason="no_such_module: not installed")
"""


def run(folder: Path, files: dict[str, str], **environment: str) -> tuple[int, list[str]]:
    """Exit code and lines of pytest, run on files of these names and contents."""
    for name, text in files.items():
        (folder / name).write_text(text)
    known = {key: value for key, value in os.environ.items() if key not in ("CI", "WEIR_SKIPPED_TESTS")}
    known["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "skips", "-p", "no:cacheprovider", "--rootdir", "."],
        cwd=folder,
        env={**known, "PYTHONPATH": str(Path(__file__).parent), **environment},
        capture_output=True,
        text=True,
    )
    return ended.returncode, ended.stdout.splitlines()


def test_skipped_tests_of_both_languages_are_listed_by_reason(tmp_path: Path) -> None:
    rust = tmp_path / "rust.txt"
    rust.write_text("core/tests/a.rs::one\tkernel: no IPv6\ncore/tests/a.rs::two\txz: not on PATH\n")
    code, lines = run(tmp_path, {"test_a.py": TESTS, "test_b.py": FILE}, WEIR_SKIPPED_TESTS=str(rust))
    assert code == 0
    (begin,) = (i for i, line in enumerate(lines) if "skipped tests, by reason: 7" in line)
    assert lines[begin + 1 : begin + 11] == [
        "   1 got empty parameter set for (file)",
        "       test_a.py (1)",
        "   3 kernel: no IPv6",
        "       core/tests/a.rs (1)",
        "       test_a.py (2)",
        "   1 no_such_module: not installed",
        "       test_b.py (1)",
        "   1 tshark: not on PATH",
        "       test_a.py (1)",
        "   1 xz: not on PATH",
    ]


def test_in_continuous_integration_only_permitted_reasons_are_skips(tmp_path: Path) -> None:
    code, lines = run(tmp_path, {"test_a.py": TESTS}, CI="true")
    assert code == 1
    assert "skipped where CI=true: tshark: not on PATH" in lines
    assert "skipped where CI=true: got empty parameter set for (file)" in lines
    assert lines[-1].startswith("1 failed, 2 skipped, 1 error")


def test_in_continuous_integration_a_skipped_file_is_a_failure(tmp_path: Path) -> None:
    code, lines = run(tmp_path, {"test_b.py": FILE}, CI="true")
    assert code != 0
    assert "skipped where CI=true: no_such_module: not installed" in lines


@pytest.mark.parametrize("value", ["", "false"])
def test_elsewhere_every_skip_is_a_skip(tmp_path: Path, value: str) -> None:
    code, _ = run(tmp_path, {"test_a.py": TESTS}, CI=value)
    assert code == 0
