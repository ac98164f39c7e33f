# SPDX-License-Identifier: Apache-2.0
"""stdout and stderr of weir's programs, which print characters such as – and → that not every terminal has.

For programs; a library leaves the streams of its user as they are.
"""

import io
import sys


def print_any_character() -> None:
    """Print `?` from now on in place of a character that the encoding of stdout or stderr lacks.

    Python raises UnicodeEncodeError there, in locales such as de_DE.ISO-8859-1 or with PYTHONIOENCODING, and
    a run whose files are all written would fail while its summary is shown.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
