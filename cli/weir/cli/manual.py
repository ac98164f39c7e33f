# SPDX-License-Identifier: Apache-2.0
"""The manual of the `weir` command, computed from its commands: a man page, and data for other formats."""

from __future__ import annotations

import datetime
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import typer
from typer.main import get_command

from weir.cli.filled_help import Paragraph, paragraphs

_ENVIRONMENT = (
    ("WEIR_DEBUG=1", "An internal error prints where it occurred."),
    ("NO_COLOR", "Any value: no colours."),
)
_SEE_ALSO = "tc-tbf(8), tcpdump(1); weir-switch --help, weir-collector --help"
_WIDTH = 78


@dataclass(frozen=True)
class Parameter:
    """An argument or an option: its names with the form of its value, and what it does."""

    form: str
    help: str


@dataclass(frozen=True)
class CommandManual:
    """One command as `--help` describes it."""

    name: str
    usage: str
    paragraphs: tuple[Paragraph, ...]
    parameters: tuple[Parameter, ...]


def manual_of(app: typer.Typer) -> tuple[CommandManual, ...]:
    """The program itself, then each of its commands in their order; of a group those in it."""
    program = get_command(app)
    root = typer.Context(program, info_name=app.info.name, **program.context_settings)
    return tuple(_describe(context) for context in (root, *_commands_below(root)))


def _commands_below(group: typer.Context) -> Iterator[typer.Context]:
    for name, command in getattr(group.command, "commands", {}).items():
        context = typer.Context(command, info_name=name, parent=group)
        if hasattr(command, "commands"):
            yield from _commands_below(context)
        else:
            yield context


def _describe(context: typer.Context) -> CommandManual:
    command = context.command
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    usage = [_usage_piece(piece) for piece in command.collect_usage_pieces(context)]
    return CommandManual(
        context.command_path,
        " ".join([context.command_path, *usage]),
        tuple(paragraphs(command.help or "")),
        tuple(_parameter(*record) for record in records if record is not None),
    )


def _usage_piece(piece: str) -> str:
    """`{FILE…}...` as `FILE…` and `[[RUN…]]...` as `[RUN…]`: the names of lists end in an ellipsis."""
    plain = piece.strip("{}.").replace("{", "").replace("}", "")
    return plain.replace("[[", "[").replace("]]", "]")


def _parameter(form: str, text: str) -> Parameter:
    name, has_type, _ = form.partition(" <")
    return Parameter(form if form.startswith("-") or not has_type else name, " ".join(text.split()))


def man_page(app: typer.Typer, version: str) -> str:
    """The man page weir(1), in the macros of man(7). Its date is SOURCE_DATE_EPOCH's, by default today."""
    program, *commands = manual_of(app)
    summary, *rest = program.paragraphs
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    day = (
        datetime.datetime.fromtimestamp(int(epoch), datetime.UTC)
        if epoch
        else datetime.datetime.now(datetime.UTC)
    )
    lines = [f'.TH WEIR 1 {day:%Y-%m-%d} "weir {_escape(version)}"', ".SH NAME"]
    lines += [f"weir \\- {_escape(summary.text[:1].lower() + summary.text[1:].rstrip('.'))}"]
    lines += [".SH SYNOPSIS", _bold("weir COMMAND [OPTIONS] [ARGS]"), ".SH DESCRIPTION"]
    lines += [*_body(rest), ".SH OPTIONS", *_options(program.parameters), ".SH COMMANDS"]
    for command in commands:
        lines += [f".SS {_escape(command.usage)}", *_body(command.paragraphs), *_options(command.parameters)]
    lines += [".SH ENVIRONMENT"]
    lines += _options([Parameter(*entry) for entry in _ENVIRONMENT])
    lines += [".SH SEE ALSO", _escape(_SEE_ALSO)]
    return "\n".join(lines) + "\n"


def _body(paragraphs: Sequence[Paragraph]) -> list[str]:
    lines = []
    for number, paragraph in enumerate(paragraphs):
        lines += [".PP"] * (number > 0)
        if paragraph.verbatim:
            lines += [".nf", *(_escape(line) for line in paragraph.text.splitlines()), ".fi"]
        else:
            lines += _filled(paragraph.text)
    return lines


def _options(parameters: Sequence[Parameter]) -> list[str]:
    return [
        line for parameter in parameters for line in (".TP", _bold(parameter.form), *_filled(parameter.help))
    ]


def _filled(text: str) -> list[str]:
    return [_escape(line) for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False)]


def _bold(text: str) -> str:
    return f"\\fB{_escape(text)}\\fR"


def _escape(text: str) -> str:
    """Text for roff: no escape, no request at the line's start, characters beyond ASCII by their code."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    escaped = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
