# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that it cleans up."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
