# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: lists skipped tests by reason, Rust's too; continuous integration may skip only some.

A reason begins with what is missing and a colon, as in `kernel: no IPv6`. Where the variable CI is `true`,
that word must be in `permitted-skips.txt`, or the test fails. Rust tests record theirs in the file that
`WEIR_SKIPPED_TESTS` names (`tools/skipped/`).
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

PERMITTED = tuple(
    line.split()[0]
    for line in Path(__file__).with_name("permitted-skips.txt").read_text().splitlines()
    if not line.startswith("#")
)
LIST = "WEIR_SKIPPED_TESTS"

Report = pytest.TestReport | pytest.CollectReport


def reason_of(report: Report) -> str:
    """The reason that a skipped test gave."""
    assert isinstance(report.longrepr, tuple)
    return str(report.longrepr[2]).removeprefix("Skipped: ")


def judged(report: Report) -> Report:
    """The report; a failure instead of a skip that is not permitted here."""
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        reason = reason_of(report)
        if not reason.startswith(tuple(f"{word}: " for word in PERMITTED)):
            report.outcome = "failed"
            report.longrepr = f"skipped where CI=true: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, Report]:
    """Judge a skipped test."""
    return judged((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, Report]:
    """Judge a skipped file."""
    return judged((yield))


def of_rust() -> list[tuple[str, str]]:
    """Test and reason of each skipped Rust test, if `make test` ran them."""
    path = Path(os.environ.get(LIST, os.devnull))
    lines = path.read_text().splitlines() if path.exists() else []
    return [(test, reason) for test, _, reason in (line.partition("\t") for line in lines)]


def listing(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """Lines with each reason, how many tests gave it, and the files of these tests."""
    by_reason: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for test, reason in skipped:
        by_reason[" ".join(reason.split())][test.partition("::")[0]] += 1
    lines = []
    for reason, files in sorted(by_reason.items()):
        lines.append(f"{files.total():4} {reason}")
        lines.extend(f"       {file} ({count})" for file, count in sorted(files.items()))
    return lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests of Python and Rust."""
    reports = terminalreporter.stats.get("skipped", [])
    skipped = [(report.nodeid, reason_of(report)) for report in reports] + of_rust()
    if skipped:
        terminalreporter.section(f"skipped tests, by reason: {len(skipped)}")
        for line in listing(skipped):
            terminalreporter.line(line)
