# SPDX-License-Identifier: Apache-2.0
"""Read the table of features in docs/ptf.md and the existing tests, without running or importing them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from weir.ptftests.capabilities import TARGETS

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "ptf.md"
TESTS = ROOT / "ptf-tests" / "tests"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "embedded": ("embedded",),
    "packet ports": ("embedded-nn",),
    "bmv2": ("bmv2",),
    "Tofino's models": ("tofino1-model", "tofino2-model"),
    "Tofino": ("tofino-model", "tofino"),
}
"""Targets of each column; a column says SKIP if one of its targets lacks a needed capability."""


@dataclass(frozen=True, slots=True)
class Row:
    """A feature: its cell in each column, and its tests. Without tests, the last cell is the reason."""

    feature: str
    columns: Mapping[str, str]
    tests: tuple[str, ...]
    last: str


def rows(page: Path = PAGE) -> list[Row]:
    """The rows of the table of features."""
    section = page.read_text().split("## Features")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("| ")]
    found = []
    for line in table:
        feature, *columns, last = [cell.strip() for cell in line.strip("|").split(" | ")]
        if feature in ("feature", "---"):
            continue
        tests = tuple(re.findall(r"`(\w+\.\w+)`", last))
        found.append(Row(feature, dict(zip(COLUMNS, columns, strict=True)), tests, last))
    return found


def needs_of_tests(folder: Path = TESTS) -> dict[str, tuple[str, ...]]:
    """The capabilities that each test needs, by `file.Class`, with those of base classes in the same file."""
    return dict(test for path in sorted(folder.glob("*.py")) for test in _tests(path))


def _tests(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    needs: dict[str, tuple[str, ...]] = {}
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.ClassDef):
            continue
        inherited = [needs[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in needs]
        needs[node.name] = inherited[0] if inherited else ()
        for part in node.body:
            target = part.targets[0] if isinstance(part, ast.Assign) else getattr(part, "target", None)
            if isinstance(target, ast.Name) and target.id == "needs":
                needs[node.name] = tuple(ast.literal_eval(part.value))  # type: ignore[attr-defined]
        if any(isinstance(part, ast.FunctionDef) and part.name == "runTest" for part in node.body):
            yield f"{path.stem}.{node.name}", needs[node.name]


def runs_on(column: str, needs: tuple[str, ...]) -> bool:
    """Whether all targets of a column have the capabilities that a test needs."""
    return all(getattr(TARGETS[target], name) for target in COLUMNS[column] for name in needs)
