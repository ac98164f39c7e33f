# SPDX-License-Identifier: Apache-2.0
"""Give libFuzzer the project's property tests of Python: it chooses what Hypothesis would choose at random.

Usage: WEIR_FUZZ_TARGET=configs|replays python fuzz/python_targets.py [LIBFUZZER OPTION ...]

Needs atheris (`requirements.txt`), which reports the coverage of the modules that are imported under its eye.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import atheris

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "configs": (
        "weir.controlplane.config.robustness_test",
        ("test_any_value_anywhere_is_accepted_or_explained", "test_any_text_is_accepted_or_explained"),
    ),
    "replays": (
        "weir_tests.replay.robustness_test",
        (
            "test_the_script_of_any_segments_can_be_read_again",
            "test_any_file_is_a_capture_with_a_replay_or_refused",
            "test_lines_are_a_script_that_can_be_read_again_or_refused",
        ),
    ),
}
"""Module and tests of each target; an input's first byte chooses the test."""


def main() -> None:
    """Run the target that WEIR_FUZZ_TARGET names, until libFuzzer ends the program."""
    name = os.environ.get("WEIR_FUZZ_TARGET", "")
    if name not in TESTS:
        raise SystemExit(f"WEIR_FUZZ_TARGET: no target {name!r}; valid: {', '.join(TESTS)}")
    module_name, names = TESTS[name]
    sys.path.insert(0, str(ROOT / "replay"))
    with atheris.instrument_imports(include=["weir"]):
        module = import_module(module_name)
    tests: list[Callable[[bytes], object]] = [
        getattr(module, test).hypothesis.fuzz_one_input for test in names
    ]

    def run(data: bytes) -> None:
        if data:
            tests[data[0] % len(tests)](data[1:])

    atheris.Setup(sys.argv, run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
