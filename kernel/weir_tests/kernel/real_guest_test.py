# SPDX-License-Identifier: Apache-2.0
"""Ways in which a real guest ends, on the kernel 6.12 of the user's cache (`make kernel`)."""

from __future__ import annotations

import json
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
# Readings through the vDSO beside those of a system call, at a hundred times; the program sleeps between,
# because time moves only then. Then a loop that makes no other call.
CLOCKS = """
import ctypes, json, time
libc = ctypes.CDLL(None)
class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
def called(clock):
    found = Timespec()
    assert libc.syscall(228, clock, ctypes.byref(found)) == 0  # clock_gettime
    return found.s * 10**9 + found.ns
differ = 0
for _ in range(100):
    for clock in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC):
        before = [time.clock_gettime_ns(clock) for _ in range(100)]
        differ += {called(clock)} != set(before)
    time.sleep(0.001)
begin, readings = time.monotonic_ns(), 1
while (waited := time.monotonic_ns() - begin) < 100_000:
    readings += 1
found = {"differ": differ, "started_ns": called(0) - called(1), "waited_ns": waited, "readings": readings}
print(json.dumps(found))
"""
GREEDY = "kept = []\nwhile True: kept.append(b'x' * (1 << 20))"


pytestmark = needs_real_kernel


def lines_of(folder: Path, program: str, *, still_s: float = 60.0) -> list[str]:
    """The lines that a Python program prints in a guest."""
    found = real_kernel()
    assert found is not None
    state, job = folder / "state", folder / "job"
    state.mkdir()
    job.mkdir()
    lines: list[str] = []
    outputs = Outputs(lines.append, lambda line: print(line, file=sys.stderr), job / "kernel.log")
    code = run_guest(
        found.program,
        GuestJob([sys.executable, "-S", "-E", "-c", program], {}, str(job), _STARTED_NS),
        outputs,
        memory_mb=128,
        state=state,
        still_s=still_s,
    )
    assert code == 0
    return [line for line in lines if "virtual_s" not in line]


def error_of(folder: Path, program: str, *, still_s: float = 60.0) -> str:
    """The error of a guest that runs a Python program."""
    with pytest.raises(KernelError) as failed:
        lines_of(folder, program, still_s=still_s)
    return str(failed.value)


def test_clocks_without_system_calls_are_exact_and_a_loop_that_reads_one_ends(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, CLOCKS)
    found = json.loads(line)
    assert found["differ"] == 0
    assert abs(found["started_ns"] - _STARTED_NS) < 1000
    assert 100_000 <= found["waited_ns"] < 110_000
    # After 100,000 system calls for the time each takes 256 ns; one reading in 64 is such a call.
    assert found["readings"] > 10 * 100_000


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
