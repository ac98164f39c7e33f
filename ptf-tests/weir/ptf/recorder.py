# SPDX-License-Identifier: Apache-2.0
"""Runs the `ptf` program and records each test's outcome: `python recorder.py MODULES RECORD PTF ARGUMENT…`.

It runs in the Python of the tests, which may be another one than weir's: standard library only, and started
by its path. RECORD gets a line of JSON when a test starts and one when it ends, so that a test that ends the
process is known too. MODULES are imported first, separated by commas; mostly there is none.
"""

from __future__ import annotations

import functools
import importlib
import json
import runpy
import sys
import time
import unittest
from pathlib import Path
from typing import Any, TextIO


class RecordingResult(unittest.TextTestResult):
    """unittest's printed result, which also writes the record."""

    def __init__(self, record: TextIO, *arguments: Any, **options: Any) -> None:
        """Append to an open file."""
        super().__init__(*arguments, **options)
        self._record = record
        self._began_s = 0.0
        self._ended: dict[str, Any] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        """Record that a test starts."""
        self._began_s = time.monotonic()
        self._ended = {"test": _name(test), "outcome": "passed", "text": ""}
        self._write({"started": _name(test)})
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:
        """Record how it ended."""
        super().stopTest(test)
        self._write({**self._ended, "seconds": round(time.monotonic() - self._began_s, 3)})
        self._ended = {}

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """An assertion failed."""
        super().addFailure(test, err)
        self._ends("failed", self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """Another exception was raised; unittest also reports a class or module that cannot be set up."""
        super().addError(test, err)
        if self._ended:
            self._ends("error", self.errors[-1][1])
        else:
            self._write({"test": str(test), "outcome": "error", "text": self.errors[-1][1], "seconds": 0.0})

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """A part of a test ended."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._ends("failed" if failed else "error", (self.failures if failed else self.errors)[-1][1])

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """A test passed that is marked as failing."""
        super().addUnexpectedSuccess(test)
        self._ends("failed", "the test passed, though it is marked with expectedFailure")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """A test was skipped."""
        super().addSkip(test, reason)
        self._ends("skipped", reason)

    def _ends(self, outcome: str, text: str) -> None:
        said = self._ended["text"]
        self._ended |= {"outcome": outcome, "text": f"{said}\n{text}" if said else text}

    def _write(self, line: dict[str, Any]) -> None:
        self._record.write(json.dumps(line) + "\n")
        self._record.flush()


def _name(test: unittest.TestCase) -> str:
    return f"{type(test).__module__}.{type(test).__name__}"


def main() -> None:
    """Run PTF with its arguments, as if it had been started itself."""
    modules, record, program = sys.argv[1:4]
    sys.argv = sys.argv[3:]
    # As if PTF had been started: the tests must not find this file's neighbours by their short names.
    if sys.path[0] == str(Path(__file__).parent):
        sys.path[0] = str(Path(program).parent)
    for module in filter(None, modules.split(",")):
        importlib.import_module(module)
    with Path(record).open("a") as lines:
        result = functools.partial(RecordingResult, lines)
        unittest.TextTestRunner = functools.partial(  # type: ignore[assignment, misc]
            unittest.TextTestRunner, resultclass=result
        )
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
