# SPDX-License-Identifier: Apache-2.0
"""Exit codes, and the error of a command line. Imports nothing, so that `weir --help` is fast."""

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_DISK = 10
EXIT_INTERRUPTED = 130


class InputError(ValueError):
    """The command line, or a file that it names, cannot be used; the text says what would be valid."""
