# SPDX-License-Identifier: Apache-2.0
"""Shows the steps of a run: one line that is replaced in a notebook, lines on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Show = Callable[[str], None]


def shower(wanted: bool | None) -> Show:
    """The function that shows a step. None: in notebooks and on terminals, but not in scripts' logs."""
    if wanted is False:
        return lambda text: None
    if _in_notebook():
        return _Display()
    if wanted or sys.stderr.isatty():
        return lambda text: print(text, file=sys.stderr, flush=True)
    return lambda text: None


class _Display:
    """A display of one line, which the next step replaces."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, text: str) -> None:
        from IPython.display import display

        line = _Line(text)
        if self._handle is None:
            self._handle = display(line, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(line)


class _Line:
    """A text without the quotes of its repr."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; a terminal's IPython has no kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None
