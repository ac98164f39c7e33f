# SPDX-License-Identifier: Apache-2.0
"""The host's side of a guest: what it passes on, and every way in which a guest ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weir.kernel.errors import KernelError
from weir.kernel.guest import GuestJob, Outputs, Stopped, report_of, run_guest
from weir_tests.kernel.fake_kernel import make_kernel


class Guest:
    """Runs scripts as kernels, and keeps their output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.errors: list[str] = []
        self.console = folder / "kernel.log"

    def run(self, script: str, *, stop: int | None = None, still_s: float = 60.0) -> int:
        state = self.folder / "state"
        state.mkdir()
        return run_guest(
            make_kernel(self.folder / "linux", script),
            GuestJob(["/bin/true"], {}, str(self.folder), 0),
            Outputs(self.lines.append, self.errors.append, self.console),
            memory_mb=256,
            state=state,
            stop=stop,
            still_s=still_s,
        )


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def test_lines_are_passed_on_and_the_reported_exit_code_is_returned(guest: Guest) -> None:
    code = guest.run(
        """say '{"virtual_s": 1.0}'; say step; complain 'weir: no'; echo booted; say '{"exit": 7}'"""
    )
    assert code == 7
    assert guest.lines == ['{"virtual_s": 1.0}', "step"]
    assert guest.errors == ["weir: no"]
    assert guest.console.read_text() == "booted\n"


def test_the_job_is_in_the_folder_of_the_guests_state(guest: Guest) -> None:
    script = """for job; do :; done; say "$(cat "$job")"; say '{"exit": 0}'"""
    assert guest.run(script) == 0
    assert report_of(guest.lines[0]) == {
        "argv": ["/bin/true"],
        "environment": {},
        "folder": str(guest.folder),
        "realtime_ns": 0,
    }


def test_a_panic_is_one_line_with_the_console(guest: Guest) -> None:
    with pytest.raises(KernelError) as failed:
        guest.run("echo '[   12.5] Kernel panic - not syncing: Attempted to kill init!'; exit 1")
    assert str(failed.value) == (
        f"the kernel ended: kernel panic: Attempted to kill init!; its console: {guest.console}"
    )


def test_a_killed_kernel_without_a_message_has_its_exit_code(guest: Guest) -> None:
    with pytest.raises(KernelError, match=r"the kernel ended: exit code -9, and its console is empty; its"):
        guest.run("kill -9 $$")


def test_too_little_memory_is_named(guest: Guest) -> None:
    script = "echo 'Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled'; exit 1"
    with pytest.raises(KernelError) as failed:
        guest.run(script)
    assert str(failed.value) == "256 MB are too little memory for the guest; give it more with --memory"


def test_a_guest_whose_time_stands_still_is_ended(guest: Guest) -> None:
    with pytest.raises(KernelError, match=r"time stood still for 0.2 s: a process in it never waits"):
        guest.run("exec sleep 1000", still_s=0.2)


def test_a_stop_ends_the_guest(guest: Guest) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    with pytest.raises(Stopped):
        guest.run("exec sleep 1000", stop=reader)
    os.close(reader)
    os.close(writer)


def test_other_lines_are_no_reports() -> None:
    assert report_of('{"exit": 0}') == {"exit": 0}
    assert report_of("[1, 2]") == report_of("phase main") == {}
