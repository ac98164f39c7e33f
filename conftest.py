# SPDX-License-Identifier: Apache-2.0
"""What holds for every Python test."""

import signal


def pytest_configure() -> None:
    """Undo what a shell does to the commands that it puts in the background, as continuous integration may.

    They ignore SIGINT, their children inherit that, and `weir` keeps such a wish; but tests of Ctrl-C need it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
