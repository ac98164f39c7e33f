# SPDX-License-Identifier: Apache-2.0
"""Ways in which a real guest ends, on the kernel 6.12 of the user's cache (`make kernel`)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weir.kernel.errors import KernelError
from weir.kernel.guest import GuestJob, Outputs, run_guest
from weir_tests.kernel.real_kernel import needs_real_kernel, real_kernel

# Overwrites the code of process 1; the kernel panics when that dies.
PANIC = """
import os
with open("/proc/1/maps") as maps:
    spans = [line.split() for line in maps if " r-xp " in line]
with open("/proc/1/mem", "r+b", buffering=0) as memory:
    for span, *_ in spans:
        start, end = (int(address, 16) for address in span.split("-"))
        try:
            memory.seek(start)
            memory.write(bytes(end - start))
        except OSError:
            pass
"""
_STARTED_NS = 1_700_000_000 * 10**9
BUSY = "while True: pass"
GREEDY = "kept = []\nwhile True: kept.append(b'x' * (1 << 20))"


pytestmark = needs_real_kernel


def error_of(folder: Path, program: str, *, still_s: float = 60.0) -> str:
    """The error of a guest that runs a Python program."""
    found = real_kernel()
    assert found is not None
    state, job = folder / "state", folder / "job"
    state.mkdir()
    job.mkdir()
    outputs = Outputs(lambda _line: None, lambda _line: None, job / "kernel.log")
    with pytest.raises(KernelError) as failed:
        run_guest(
            found.program,
            GuestJob([sys.executable, "-S", "-E", "-c", program], {}, str(job), _STARTED_NS),
            outputs,
            memory_mb=128,
            state=state,
            still_s=still_s,
        )
    return str(failed.value)


def test_a_panic_is_named(tmp_path: Path) -> None:
    error = error_of(tmp_path, PANIC)
    assert error.startswith(
        "the kernel ended: kernel panic: Attempted to kill init! exitcode=0x0000000"
    )  # a signal, not an exit
    assert error.endswith(f"its console: {tmp_path / 'job' / 'kernel.log'}")
    assert "\n" not in error


def test_a_process_that_never_waits_is_ended_because_time_stands_still(tmp_path: Path) -> None:
    error = error_of(tmp_path, BUSY, still_s=15.0)
    assert error == "the guest's time stood still for 15 s: a process in it never waits"


def test_a_program_that_needs_more_memory_than_the_guest_has_is_named(tmp_path: Path) -> None:
    error = error_of(tmp_path, GREEDY)
    assert error == "128 MB are too little memory for the guest; give it more with --memory"
