# SPDX-License-Identifier: Apache-2.0
"""stdout and stderr of weir's programs, which print characters such as – and → that not every terminal has.

For programs; a library leaves the streams of its user as they are.
"""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STANDARD_OUTPUT = "standard output"
"""The name of the file in its errors."""


class _StandardOutput(io.FileIO):
    """Names itself in its errors, as write(2) names no file."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


def name_standard_output() -> None:
    """Make errors of stdout (a full disk behind `> FILE`) name it from now on."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        raw = _StandardOutput(stream.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            cast(BinaryIO, raw if stream.write_through else io.BufferedWriter(raw)),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )


def print_any_character() -> None:
    """Print `?` from now on in place of a character that the encoding of stdout or stderr lacks.

    Python raises UnicodeEncodeError there, in locales such as de_DE.ISO-8859-1 or with PYTHONIOENCODING, and
    a run whose files are all written would fail while its summary is shown.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
