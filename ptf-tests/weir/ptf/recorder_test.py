# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from weir.ptf import recorder
from weir.ptf.results import Outcome, read_record, summary, write_junit

# A program that runs tests as PTF does.
PROGRAM = """
import os, sys, unittest

class Passes(unittest.TestCase):
    def runTest(self): pass

class Fails(unittest.TestCase):
    def runTest(self): self.assertEqual(1, 2, "one is two")

class Raises(unittest.TestCase):
    def setUp(self): raise KeyError("no switch \\x00")
    def runTest(self): pass

class Skips(unittest.TestCase):
    def runTest(self): self.skipTest("only on hardware")

class FailsInParts(unittest.TestCase):
    def runTest(self):
        for part in range(3):
            with self.subTest(part): self.assertNotEqual(part, 1)

class PassesUnexpectedly(unittest.TestCase):
    @unittest.expectedFailure
    def runTest(self): pass

class HasNoClass(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("nothing there")
    def runTest(self): pass

class Ends(unittest.TestCase):
    def runTest(self): os._exit(3)

class SeesItsFolder(unittest.TestCase):
    def runTest(self): self.assertEqual(sys.path[0], os.path.dirname(os.path.abspath(__file__)))

class FindsStatistics(unittest.TestCase):
    def runTest(self): self.assertIn("statistics", sys.modules)

names = sys.argv[1:]
result = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(globals()[name]() for name in names))
sys.exit(not result.wasSuccessful())
"""


@pytest.fixture(name="run")
def _run(tmp_path):
    """Runs the recorder with a program of tests; returns the exit code, the outcomes and the output."""
    program, record = tmp_path / "program.py", tmp_path / "results.jsonl"
    program.write_text(PROGRAM)

    def with_tests(*names, modules=""):
        done = subprocess.run(
            [sys.executable, recorder.__file__, modules, record, program, *names],
            capture_output=True,
            text=True,
        )
        return done.returncode, read_record(record), done.stderr

    return with_tests


def test_each_outcome_is_recorded_with_its_reason(run):
    code, outcomes, _ = run("Passes", "Fails", "Raises", "Skips", "FailsInParts", "PassesUnexpectedly")
    assert code == 1
    assert [(one.test, one.outcome) for one in outcomes] == [
        ("__main__.Passes", "passed"),
        ("__main__.Fails", "failed"),
        ("__main__.Raises", "error"),
        ("__main__.Skips", "skipped"),
        ("__main__.FailsInParts", "failed"),
        ("__main__.PassesUnexpectedly", "failed"),
    ]
    last_lines = [one.text.strip().splitlines()[-1] for one in outcomes[1:4]]
    assert last_lines == [
        "AssertionError: 1 != 2 : one is two",
        "KeyError: 'no switch \\x00'",
        "only on hardware",
    ]


def test_a_test_that_ends_the_process_is_an_error(run):
    code, outcomes, _ = run("Passes", "Ends", "Fails")
    assert code == 3
    assert [(one.test, one.outcome) for one in outcomes] == [
        ("__main__.Passes", "passed"),
        ("__main__.Ends", "error"),
    ]
    assert outcomes[1].text == "PTF ended during this test"


def test_a_class_that_cannot_be_set_up_is_an_error(run):
    _, outcomes, _ = run("Passes", "HasNoClass")
    assert [one.outcome for one in outcomes] == ["passed", "error"]
    assert "HasNoClass" in outcomes[1].test
    assert "nothing there" in outcomes[1].text


def test_the_program_runs_as_if_it_had_been_started_itself(run):
    code, _, said = run("SeesItsFolder")
    assert code == 0, said
    assert "SeesItsFolder" in said  # unittest's own lines


def test_modules_are_imported_before_the_tests(run):
    assert run("FindsStatistics")[0] == 1
    code, _, said = run("FindsStatistics", modules="statistics,weir.ptf.results")
    assert code == 0, said


def test_no_record_is_no_outcome(tmp_path):
    assert read_record(tmp_path / "results.jsonl") == ()


OUTCOMES = (
    Outcome("nat.Out", "passed", 0.25),
    Outcome("nat.Back", "failed", 1.0, "Traceback\nAssertionError: \x00 wrong <port>\n"),
    Outcome("arp.Reply", "error", 0.5, "KeyError: 1"),
    Outcome("arp.Flood", "skipped", 0.0, "only on hardware"),
)


def test_the_summary_has_a_line_for_each_test_and_the_numbers():
    assert list(summary(OUTCOMES)) == [
        "passed   nat.Out  0.25 s",
        "failed   nat.Back  1.00 s  AssertionError: \x00 wrong <port>",
        "error    arp.Reply  0.50 s  KeyError: 1",
        "skipped  arp.Flood  0.00 s  only on hardware",
        "1 passed, 2 failed, 1 skipped",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            """Traceback (most recent call last):
  File "nat.py", line 9, in runTest
    verify_packet(self, packet, 2)
AssertionError: Expected packet was not received on device 0, port 2.
========== EXPECTED ==========
dst        : DestMACField                        = '00:01:02:03:04:05' ('None')
==============================

""",
            "AssertionError: Expected packet was not received on device 0, port 2.",
        ),
        (
            """Traceback (most recent call last):
  File "grpc.py", line 5, in first
StopIteration

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "grpc.py", line 7, in __call__
    raise _InactiveRpcError(state)
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.FAILED_PRECONDITION
\tdetails = "no forwarding pipeline is set"
\tdebug_error_string = "FAILED_PRECONDITION:no forwarding pipeline is set"
>
""",
            "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with: "
            'status = StatusCode.FAILED_PRECONDITION details = "no forwarding pipeline is set"',
        ),
        ("Traceback (most recent call last):\n  File", "  File"),
        ("Traceback (most recent call last):\n\nKeyError: 1\n", "KeyError: 1"),
        ("", ""),
    ],
)
def test_the_reason_is_the_exception_and_not_the_last_line_of_a_long_message(text, reason):
    assert Outcome("nat.Out", "error", 0.0, text).reason() == reason


def test_junit_xml_has_each_test_with_its_group_time_and_reason(tmp_path):
    path = tmp_path / "junit.xml"
    write_junit(OUTCOMES, path)
    (suite,) = ElementTree.parse(path).getroot()
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    cases = [(case.get("classname"), case.get("name"), case.get("time")) for case in suite]
    assert cases == [
        ("nat", "Out", "0.250"),
        ("nat", "Back", "1.000"),
        ("arp", "Reply", "0.500"),
        ("arp", "Flood", "0.000"),
    ]
    (failure,) = suite[1]
    assert (failure.tag, failure.get("message")) == ("failure", "AssertionError: \ufffd wrong <port>")
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["error"], ["skipped"]]
