# SPDX-License-Identifier: Apache-2.0
"""The outcome of each test: from the recorder's record to a summary and JUnit's XML."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

RECORD = "results.jsonl"
JUNIT = "junit.xml"
_FAILED = ("failed", "error")
# XML 1.0, section 2.2: characters that no document may contain.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test: `passed`, `failed` (an assertion), `error` (anything else) or `skipped`, and why."""

    test: str
    outcome: str
    seconds: float
    text: str = ""
    """The traceback, or the reason why it was skipped."""

    @property
    def failed(self) -> bool:
        """Whether the test did not pass."""
        return self.outcome in _FAILED

    def line(self) -> str:
        """One line; a test that did not pass shows its exception, or its reason."""
        why = self.reason()
        return f"{self.outcome:<7}  {self.test}  {self.seconds:.2f} s" + (f"  {why}" if why else "")

    def reason(self) -> str:
        """The traceback's line with the exception and its message; of other texts the last line.

        The last line says nothing where a message has many: PTF shows all packets behind an AssertionError,
        and gRPC has status and details in lines of their own, which come with the line that announces them.
        """
        lines = self.text.strip().splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("Traceback")]
        for number in range(starts[-1] + 1 if starts else len(lines), len(lines)):
            if lines[number][:1].strip():  # the frames are indented
                details = lines[number + 1 : number + 3] if lines[number].endswith(":") else []
                return " ".join([lines[number], *(line.strip() for line in details)])
        return lines[-1] if lines else ""


def read_record(path: Path) -> tuple[Outcome, ...]:
    """The outcomes of a record; a test that started and did not end is an error. Empty without a file."""
    outcomes: list[Outcome] = []
    running: str | None = None
    for line in path.read_text().splitlines() if path.exists() else ():
        found = json.loads(line)
        if "started" in found:
            running = found["started"]
        else:
            outcomes.append(Outcome(**found))
            running = None
    if running is not None:
        outcomes.append(Outcome(running, "error", 0.0, "PTF ended during this test"))
    return tuple(outcomes)


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A line for each test, then their number by outcome."""
    for outcome in outcomes:
        yield outcome.line()
    by_outcome = Counter("failed" if outcome.failed else outcome.outcome for outcome in outcomes)
    yield ", ".join(f"{by_outcome[name]} {name}" for name in ("passed", "failed", "skipped"))


def write_junit(outcomes: Sequence[Outcome], path: Path) -> None:
    """Write the outcomes as JUnit's XML, which CI systems show."""
    by_outcome = Counter(outcome.outcome for outcome in outcomes)
    suite = ElementTree.Element(
        "testsuite",
        name="ptf",
        tests=str(len(outcomes)),
        failures=str(by_outcome["failed"]),
        errors=str(by_outcome["error"]),
        skipped=str(by_outcome["skipped"]),
        time=f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    )
    for outcome in outcomes:
        group, _, name = outcome.test.rpartition(".")
        case = ElementTree.SubElement(
            suite, "testcase", classname=group, name=name, time=f"{outcome.seconds:.3f}"
        )
        tag = {"failed": "failure", "error": "error", "skipped": "skipped"}.get(outcome.outcome)
        if tag is not None:
            why, text = (_NOT_XML.sub("\ufffd", said) for said in (outcome.reason(), outcome.text))
            ElementTree.SubElement(case, tag, message=why).text = text
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)
