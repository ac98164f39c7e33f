# SPDX-License-Identifier: Apache-2.0
"""What holds for every Python test."""

import signal


def pytest_configure() -> None:
    """Undo what a shell does to the commands that it puts in the background, as continuous integration may.

    They ignore SIGINT, and their children inherit that. `weir` keeps such a wish, but tests of Ctrl-C cannot.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
