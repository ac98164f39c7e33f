# SPDX-License-Identifier: Apache-2.0
"""The `weir` program: loads the commands, which takes up to a second, and runs one."""

import sys

from weir.cli.errors import EXIT_INTERRUPTED


def main() -> None:
    """Entry point of the `weir` program; Ctrl-C while the commands are loaded is no traceback either."""
    try:
        from weir.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
