# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pip_install
import pytest

PROJECT = """
[project]
dependencies = ["numpy>=1.26", "rich>=13"]
[project.optional-dependencies]
decode = ["scapy==2.8.0"]
dev = ["ruff==0.17.5"]
"""


@pytest.mark.parametrize(
    ("arguments", "downloads"),
    [
        (["-c", "constraints.txt", "hatchling"], ["-c", "constraints.txt", "hatchling"]),
        (["--no-build-isolation", "-e", "."], ["numpy>=1.26", "rich>=13"]),
        (["-e", ".[decode,dev]"], ["numpy>=1.26", "rich>=13", "scapy==2.8.0", "ruff==0.17.5"]),
    ],
)
def test_weir_itself_is_not_downloaded(arguments: list[str], downloads: list[str], tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(PROJECT)
    assert list(pip_install.wanted(arguments, project)) == downloads
