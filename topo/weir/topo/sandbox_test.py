# SPDX-License-Identifier: Apache-2.0
"""The outer process of a sandbox, with a stand-in for the process that it starts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from weir.topo.sandbox import run_in_sandbox
from weir.topo.sandbox_init import INTERRUPT


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class SlowToStart:
    """A process during whose start the user presses Ctrl-C; it ends when its control pipe says so."""

    def __init__(self, _command: list[str], *, pass_fds: list[int], **_options: Any) -> None:
        self._control = os.dup(pass_fds[0])
        signal.raise_signal(signal.SIGINT)

    def wait(self) -> int:
        request = os.read(self._control, 16)
        os.close(self._control)
        return 130 if request == INTERRUPT else 1


def test_a_stop_during_the_start_of_a_sandbox_reaches_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", SlowToStart)
    before = signal.getsignal(signal.SIGINT)
    assert run_in_sandbox("weir.none", [], isolated=False, announce_stop=False) == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_a_sandbox_that_cannot_be_started_leaves_the_signals_and_no_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before, descriptors = signal.getsignal(signal.SIGINT), open_descriptors()
    with pytest.raises(OSError):  # noqa: PT011
        run_in_sandbox("weir.none", [], isolated=False)
    assert signal.getsignal(signal.SIGINT) is before
    assert open_descriptors() == descriptors
