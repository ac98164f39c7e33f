# SPDX-License-Identifier: Apache-2.0
"""Commands whose `--help` fills the width of the terminal, whatever the line breaks of their docstrings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

VERBATIM = "\b"
"""Begins a paragraph whose lines are kept."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a help text; `verbatim` keeps its lines."""

    text: str
    verbatim: bool


def paragraphs(text: str) -> Iterator[Paragraph]:
    """The paragraphs of a help text; those that are not verbatim are one line each."""
    for block in text.strip().split("\n\n"):
        verbatim = block.startswith(VERBATIM)
        yield Paragraph(
            block.removeprefix(VERBATIM).strip("\n") if verbatim else " ".join(block.split()), verbatim
        )


def filled(text: str) -> str:
    """The help text in the form whose lines Typer does not break before the terminal's width."""
    return "\n\n".join(f"{VERBATIM * its.verbatim}{its.text}" for its in paragraphs(text))


class _Command(TyperCommand):
    def __init__(self, name: str | None, *, help: str | None = None, **settings: Any) -> None:
        super().__init__(name, help=filled(help or ""), **settings)


class Commands(typer.Typer):
    """A Typer application of such commands."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Function], _Function]:
        """As Typer's."""
        return super().command(name, cls=_Command, **settings)
