# SPDX-License-Identifier: Apache-2.0
"""Commands on match tables."""

from __future__ import annotations

from typing import Any

from weir.cli.simple_switch import values
from weir.cli.simple_switch.errors import CommandError
from weir.cli.simple_switch.program import MATCH_NAMES, Action, Table
from weir.cli.simple_switch.services import (
    ACTION_DATA,
    GROUP,
    MEMBER,
    NO_ENTRY,
    ActionEntry,
    Entry,
    MatchParam,
    Options,
)
from weir.cli.simple_switch.shell import Shell, at_least, command, exactly

STARS = "*" * 10
DOUBLE_LINE = "=" * 10


def hexadecimal_list(data: list[bytes] | None) -> str:
    """Action data as dumps list it."""
    return ", ".join(values.hexadecimal(value) for value in data or [])


def print_action_entry(entry: ActionEntry) -> None:
    """Print the action, member or group of an entry."""
    if entry.action_type == NO_ENTRY:
        print("EMPTY")
    elif entry.action_type == ACTION_DATA:
        print(f"Action entry: {entry.action_name} - {hexadecimal_list(entry.action_data)}")
    elif entry.action_type == MEMBER:
        print(f"Index: member({entry.mbr_handle})")
    elif entry.action_type == GROUP:
        print(f"Index: group({entry.grp_handle})")


def print_entry(table: Table, entry: Entry) -> None:
    """Print an entry as `table_dump` does."""
    print(f"Dumping entry {entry.entry_handle:#x}")
    print("Match key:")
    width = max([20, *(len(part.name) for part in table.key)])
    for part, given in zip(table.key, entry.match_key, strict=False):
        print(f"* {part.name:{width}}: {values.dumped(given)}")
    if entry.options.priority is not None and entry.options.priority >= 0:
        print(f"Priority: {entry.options.priority}")
    print_action_entry(entry.action_entry)
    if entry.life is not None:
        print(f"Life: {entry.life.time_since_hit_ms}ms since hit, timeout is {entry.life.timeout_ms}ms")


def _print_data(data: list[bytes]) -> None:
    print(f"{'runtime data:':20} " + "\t".join(values.hexadecimal(value, ":") for value in data))


def take_priority(table: Table, words: list[str]) -> int:
    """Remove the priority at the end of the words, if the table has priorities. Raises CommandError."""
    if not table.has_priorities:
        return 0
    missing = "Table is ternary, but could not extract a valid priority from args"
    return values.integer(words.pop() if words else "", missing)


def split_key(words: list[str]) -> tuple[list[str], list[str]]:
    """The words before `=>` and after it; without one, the last word is taken to be it, as in bmv2."""
    at = words.index("=>") if "=>" in words else len(words) - 1
    return words[: max(at, 0)], words[at + 1 :]


class TableCommands(Shell):
    """The commands."""

    def action_of(self, table: Table, table_name: str, name: str) -> Action:
        """An action of a table. Raises CommandError."""
        action = self.program.action_of(table.actions, name)
        if action is None:
            raise CommandError(f"Table {table_name} has no action {name}")
        return action

    @command
    def do_show_tables(self, words: list[str]) -> None:
        """List the tables of the program: show_tables."""
        exactly(words, 0)
        for table in self.program.tables.values():
            print(table)

    @command
    def do_show_actions(self, words: list[str]) -> None:
        """List the actions of the program: show_actions."""
        exactly(words, 0)
        for action in self.program.actions.values():
            print(action)

    @command
    def do_table_show_actions(self, words: list[str]) -> None:
        """List the actions of one table: table_show_actions <table name>."""
        exactly(words, 1)
        self._print_actions(self.table(words[0]))

    def _print_actions(self, table: Table) -> None:
        for name in sorted(table.actions):
            print(table.actions[name])

    @command
    def do_table_info(self, words: list[str]) -> None:
        """Show key, implementation and actions of a table: table_info <table name>."""
        exactly(words, 1)
        table = self.table(words[0])
        print(table)
        print("*" * 80)
        self._print_actions(table)

    @command
    def do_table_set_default(self, words: list[str]) -> None:
        """Set the default action of a table.

        table_set_default <table name> <action name> <action parameters>
        """
        at_least(words, 2)
        table = self.table(words[0])
        action = self.action_of(table, words[0], words[1])
        data = values.runtime_data(action, words[2:], words[1])
        print("Setting default action of", words[0])
        print(f"{'action:':20} {words[1]}")
        _print_data(data)
        self.switch.of("bm_mt_set_default_action", table.name, action.name, data)

    @command
    def do_table_reset_default(self, words: list[str]) -> None:
        """Return to the program's default entry of a table: table_reset_default <table name>."""
        exactly(words, 1)
        self.switch.of("bm_mt_reset_default_entry", self.table(words[0]).name)

    @command
    def do_table_num_entries(self, words: list[str]) -> None:
        """Count the entries of a table of any type: table_num_entries <table name>."""
        exactly(words, 1)
        print(self.switch.of("bm_mt_get_num_entries", self.table(words[0]).name))

    @command
    def do_table_clear(self, words: list[str]) -> None:
        """Remove all entries of a table of any type but the default one: table_clear <table name>."""
        exactly(words, 1)
        self.switch.of("bm_mt_clear_entries", self.table(words[0]).name, False)

    @command
    def do_table_add(self, words: list[str]) -> None:
        """Add an entry.

        table_add <table name> <action name> <match fields> => <action parameters> [priority]
        """
        at_least(words, 3)
        table = self.table(words[0])
        action = self.action_of(table, words[0], words[1])
        rest = words[2:]
        priority = take_priority(table, rest)
        fields, parameters = split_key(rest)
        if len(fields) != len(table.key):
            raise CommandError(f"Table {words[0]} needs {len(table.key)} key fields")
        data = values.runtime_data(action, parameters)
        key = values.match_key(table, fields, words[0])
        print("Adding entry to", MATCH_NAMES[table.match], "match table", words[0])
        print(f"{'match key:':20} " + "\t".join(values.shown(part) for part in key))
        print(f"{'action:':20} {words[1]}")
        _print_data(data)
        handle = self.switch.of("bm_mt_add_entry", table.name, key, action.name, data, Options(priority))
        print("Entry has been added with handle", handle)

    @command
    def do_table_set_timeout(self, words: list[str]) -> None:
        """Let an entry time out, where the table permits it.

        table_set_timeout <table name> <entry handle> <timeout (ms)>
        """
        exactly(words, 3)
        table = self.table(words[0])
        if not table.support_timeout:
            raise CommandError(f"Table {words[0]} does not support entry timeouts")
        handle = values.integer(words[1], "Bad format for entry handle")
        timeout_ms = values.integer(words[2], "Bad format for timeout")
        print("Setting a", timeout_ms, "ms timeout for entry", handle)
        self.switch.of("bm_mt_set_entry_ttl", table.name, handle, timeout_ms)

    @command
    def do_table_modify(self, words: list[str]) -> None:
        """Change the action of an entry.

        table_modify <table name> <action name> <entry handle> [action parameters]
        """
        at_least(words, 3)
        table = self.table(words[0])
        action = self.action_of(table, words[0], words[1])
        handle = values.integer(words[2], "Bad format for entry handle")
        data = values.runtime_data(action, words[4:] if words[3:4] == ["=>"] else words[3:])
        print("Modifying entry", handle, "for", MATCH_NAMES[table.match], "match table", words[0])
        self.switch.of("bm_mt_modify_entry", table.name, handle, action.name, data)

    @command
    def do_table_delete(self, words: list[str]) -> None:
        """Delete an entry: table_delete <table name> <entry handle>."""
        exactly(words, 2)
        table = self.table(words[0])
        handle = values.integer(words[1], "Bad format for entry handle")
        print("Deleting entry", handle, "from", words[0])
        self.switch.of("bm_mt_delete_entry", table.name, handle)

    def print_profile_of(self, table: Table) -> None:
        """Print members and groups of an indirect table's profile; replaced by the commands on profiles."""

    @command
    def do_table_dump(self, words: list[str]) -> None:
        """Print all entries of a table, and the default one: table_dump <table name>."""
        exactly(words, 1)
        table = self.table(words[0])
        entries = self.switch.of("bm_mt_get_entries", table.name)
        print(DOUBLE_LINE)
        print("TABLE ENTRIES")
        for entry in entries:
            print(STARS)
            print_entry(table, entry)
        self.print_profile_of(table)
        default = self.switch.of("bm_mt_get_default_entry", table.name)
        print(DOUBLE_LINE)
        print("Dumping default entry")
        print_action_entry(default)
        print(DOUBLE_LINE)

    @command
    def do_table_dump_entry(self, words: list[str]) -> None:
        """Print an entry: table_dump_entry <table name> <entry handle>."""
        exactly(words, 2)
        table = self.table(words[0])
        handle = values.integer(words[1], "Bad format for entry handle")
        print_entry(table, self.switch.of("bm_mt_get_entry", table.name, handle))

    @command
    def do_table_dump_entry_from_key(self, words: list[str]) -> None:
        """Print the entry with a key: table_dump_entry_from_key <table name> <match fields> [priority]."""
        at_least(words, 1)
        table = self.table(words[0])
        rest = words[1:]
        priority = take_priority(table, rest)
        key: list[MatchParam] = values.match_key(table, rest, words[0])
        entry = self.switch.of("bm_mt_get_entry_from_key", table.name, key, Options(priority))
        print_entry(table, entry)

    complete_table_show_actions = Shell.complete_tables
    complete_table_info = Shell.complete_tables
    complete_table_reset_default = Shell.complete_tables
    complete_table_num_entries = Shell.complete_tables
    complete_table_clear = Shell.complete_tables
    complete_table_set_timeout = Shell.complete_tables
    complete_table_delete = Shell.complete_tables
    complete_table_dump = Shell.complete_tables
    complete_table_dump_entry = Shell.complete_tables
    complete_table_dump_entry_from_key = Shell.complete_tables

    def complete_table_add(self, text: str, line: str, *_: Any) -> list[str]:
        """Tables, then actions of the table."""
        return self.complete_with_action(self.program.tables, text, line)

    complete_table_set_default = complete_table_add
    complete_table_modify = complete_table_add
