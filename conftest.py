# SPDX-License-Identifier: Apache-2.0
"""Signal handling of every Python test; `skips` lists the skipped ones."""

import signal

pytest_plugins = ["skips"]


def pytest_configure() -> None:
    """Restore the handlers of SIGINT and SIGHUP, which a shell's background jobs and nohup ignore.

    Continuous integration may run the tests that way, and children inherit it. `weir` keeps ignoring these
    signals then, but tests of Ctrl-C and of closed terminals need them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
