# SPDX-License-Identifier: Apache-2.0
"""The loop of `simple_switch_CLI`, and what all commands share."""

from __future__ import annotations

import cmd
import functools
import inspect
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from thrift.Thrift import TApplicationException

from weir.cli.simple_switch.errors import CommandError
from weir.cli.simple_switch.program import Array, Named, Program, Table
from weir.cli.simple_switch.services import OperationError, Switch

P = ParamSpec("P")
S = TypeVar("S", bound="Shell")


def command(carry_out: Callable[[S, list[str]], None]) -> Callable[[S, str], None]:
    """Make a method that takes words a command that takes a line and prints errors."""

    @functools.wraps(carry_out)
    def run(shell: S, line: str) -> None:
        try:
            carry_out(shell, line.split())
        except CommandError as error:
            print(error.prefix, error)
        except OperationError as error:
            print(error)
        except TApplicationException as error:
            print("Error:", error.message)

    return run


def at_least(words: Sequence[str], count: int) -> None:
    """Require words. Raises CommandError."""
    if len(words) < count:
        raise CommandError("Insufficient number of args")


def exactly(words: Sequence[str], count: int) -> None:
    """Require words. Raises CommandError."""
    if len(words) != count:
        raise CommandError(f"Wrong number of args, expected {count} but got {len(words)}")


def starting(names: Iterable[str], text: str) -> list[str]:
    """Those names that begin with what was typed, for completion."""
    return [name for name in sorted(names) if name.startswith(text)]


class Shell(cmd.Cmd):
    """Commands by line. An empty line repeats the one before, as in bmv2; a comment does nothing."""

    prompt = "RuntimeCmd: "
    intro = "Control utility for runtime P4 table manipulation"

    def __init__(self, switch: Switch, program: Program, **streams: Any) -> None:
        """Work on a switch that runs a program."""
        super().__init__(**streams)
        self.switch = switch
        self.program = program

    def default(self, line: str) -> None:
        """Handle what is no command."""
        if not line.startswith("#"):
            super().default(line)

    def do_help(self, arg: str) -> None:
        """List the commands, or describe one: help [<command>]."""
        described = getattr(getattr(self, f"do_{arg}", None), "__doc__", None)
        if arg and described:
            print(inspect.cleandoc(described).removesuffix("."))
        else:
            super().do_help(arg)

    def do_EOF(self, _: str) -> bool:  # noqa: D102 (not among the documented commands)
        print()
        return True

    def do_greet(self, _: str) -> None:  # noqa: D102
        print("hello")

    def do_shell(self, line: str) -> None:
        """Run a command of the system's shell and print its output: shell <command>, or !<command>."""
        done = subprocess.run(line, shell=True, stdout=subprocess.PIPE, check=False)
        print(done.stdout.decode("utf-8", "replace"))

    def table(self, name: str) -> Table:
        """The table with this name. Raises CommandError."""
        return self.program.tables.find(name)

    def complete_tables(self, text: str, *_: Any) -> list[str]:
        """Names of tables."""
        return starting(self.program.tables, text)

    def complete_profiles(self, text: str, *_: Any) -> list[str]:
        """Names of action profiles."""
        return starting(self.program.profiles, text)

    def complete_with_action(self, owners: Mapping[str, Any], text: str, line: str) -> list[str]:
        """Names of tables or profiles for the second word, of actions for the third."""
        words = line.split()
        at = len(words) - (1 if text else 0)
        if at == 1:
            return starting(owners, text)
        if at == 2 and words[1] in owners:
            return starting(owners[words[1]].actions, text)
        return []

    def array(self, arrays: Named[Array], name: str) -> Array:
        """The array with this name. Raises CommandError."""
        return arrays.find(name)
