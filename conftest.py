# SPDX-License-Identifier: Apache-2.0
"""What holds for every Python test."""

import signal


def pytest_configure() -> None:
    """Undo what a shell and nohup do to commands in the background, as continuous integration may run this.

    They ignore SIGINT and SIGHUP, and their children inherit that. `weir` keeps such a wish, but tests of
    Ctrl-C and of closed terminals cannot.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
