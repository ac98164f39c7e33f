# SPDX-License-Identifier: Apache-2.0
"""All paths in tables of README and the architecture page exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PATH = re.compile(r"`([\w*.-]+(?:/[\w*.-]*)+)`")


def missing_paths(page: Path) -> Iterator[str]:
    """Missing paths in table rows. A path may be relative to the folders of the previous one in its row."""
    for row in re.findall(r"^\|(.*)\|$", page.read_text(), re.MULTILINE):
        folders = [ROOT]
        for path in PATH.findall(row):
            found = next((folder for folder in folders if any(folder.glob(path.rstrip("/")))), None)
            if found is None:
                yield path
            else:
                first = next(found.glob(path.rstrip("/")))
                folders = [ROOT, first, *first.parents][: 2 + len(first.relative_to(ROOT).parts)]


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_every_path_in_a_table_exists(page: str) -> None:
    assert list(missing_paths(ROOT / page)) == []
