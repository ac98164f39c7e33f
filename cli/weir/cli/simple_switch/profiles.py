# SPDX-License-Identifier: Apache-2.0
"""Commands on action profiles and on the tables that they implement."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from weir.cli.simple_switch import values
from weir.cli.simple_switch.errors import CommandError
from weir.cli.simple_switch.program import Profile, Table
from weir.cli.simple_switch.services import Member, MemberGroup, Options
from weir.cli.simple_switch.shell import Shell, at_least, command, exactly
from weir.cli.simple_switch.tables import (
    DOUBLE_LINE,
    STARS,
    hexadecimal_list,
    split_key,
    take_priority,
)

_NOT_INDIRECT = "Cannot run this command on non-indirect table"


def _indirect(table: Table) -> Profile:
    if table.profile is None:
        raise CommandError(_NOT_INDIRECT)
    return table.profile


def _selecting(table: Table) -> Profile:
    if table.profile is None or not table.profile.with_selection:
        raise CommandError(f"{_NOT_INDIRECT}, or on indirect table with no selector")
    return table.profile


def _with_selector(profile: Profile) -> None:
    if not profile.with_selection:
        raise CommandError("Cannot run this command on an action profile without selector")


def _print_member(member: Member) -> None:
    print(f"Dumping member {member.mbr_handle}")
    print(f"Action entry: {member.action_name} - {hexadecimal_list(member.action_data)}")


def _print_group(group: MemberGroup) -> None:
    print(f"Dumping group {group.grp_handle}")
    print(f"Members: [{', '.join(str(handle) for handle in group.mbr_handles)}]")


def _by_table(
    name: str, help_text: str, *, selecting: bool = False, deprecated: bool = True
) -> Callable[[Any, str], None]:
    """The command that does `name` on the profile of a table instead of a profile."""

    @command
    def run(shell: ProfileCommands, words: list[str]) -> None:
        at_least(words, 1)
        table = shell.table(words[0])
        profile = _selecting(table) if selecting else _indirect(table)
        if deprecated:
            if profile.tables > 1:
                raise CommandError("Legacy command does not work with shared action profiles")
            print(f"This is a deprecated command, use '{name}' instead", file=sys.stderr)
        getattr(shell, f"do_{name}")(" ".join([profile.name, *words[1:]]))

    run.__doc__ = f"[DEPRECATED!] {help_text}\nUse '{name}' instead" if deprecated else help_text
    return run


class ProfileCommands(Shell):
    """The commands."""

    def _profile(self, name: str) -> Profile:
        return self.program.profiles.find(name)

    @command
    def do_act_prof_create_member(self, words: list[str]) -> None:
        """Create a member: act_prof_create_member <action profile name> <action name> [action parameters]."""
        at_least(words, 2)
        profile = self._profile(words[0])
        action = self._action(profile, words[0], words[1])
        data = values.runtime_data(action, words[2:])
        handle = self.switch.of("bm_mt_act_prof_add_member", profile.name, action.name, data)
        print("Member has been created with handle", handle)

    def _action(self, profile: Profile, profile_name: str, name: str) -> Any:
        action = self.program.action_of(profile.actions, name)
        if action is None:
            raise CommandError(f"Action profile '{profile_name}' has no action '{name}'")
        return action

    @command
    def do_act_prof_delete_member(self, words: list[str]) -> None:
        """Delete a member: act_prof_delete_member <action profile name> <member handle>."""
        exactly(words, 2)
        profile = self._profile(words[0])
        handle = values.integer(words[1], "Bad format for member handle")
        self.switch.of("bm_mt_act_prof_delete_member", profile.name, handle)

    @command
    def do_act_prof_modify_member(self, words: list[str]) -> None:
        """Change a member's action.

        act_prof_modify_member <action profile name> <action name> <member handle> [action parameters]
        """
        at_least(words, 3)
        profile = self._profile(words[0])
        action = self._action(profile, words[0], words[1])
        handle = values.integer(words[2], "Bad format for member handle")
        data = values.runtime_data(action, words[4:] if words[3:4] == ["=>"] else words[3:])
        self.switch.of("bm_mt_act_prof_modify_member", profile.name, handle, action.name, data)

    @command
    def do_act_prof_create_group(self, words: list[str]) -> None:
        """Create a group without members: act_prof_create_group <action profile name>."""
        exactly(words, 1)
        profile = self._profile(words[0])
        _with_selector(profile)
        handle = self.switch.of("bm_mt_act_prof_create_group", profile.name)
        print("Group has been created with handle", handle)

    @command
    def do_act_prof_delete_group(self, words: list[str]) -> None:
        """Delete a group: act_prof_delete_group <action profile name> <group handle>."""
        exactly(words, 2)
        profile = self._profile(words[0])
        _with_selector(profile)
        handle = values.integer(words[1], "Bad format for group handle")
        self.switch.of("bm_mt_act_prof_delete_group", profile.name, handle)

    def _change_group(self, method: str, words: list[str]) -> None:
        exactly(words, 3)
        profile = self._profile(words[0])
        _with_selector(profile)
        member = values.integer(words[1], "Bad format for member handle")
        group = values.integer(words[2], "Bad format for group handle")
        self.switch.of(method, profile.name, member, group)

    @command
    def do_act_prof_add_member_to_group(self, words: list[str]) -> None:
        """Put a member into a group.

        act_prof_add_member_to_group <action profile name> <member handle> <group handle>
        """
        self._change_group("bm_mt_act_prof_add_member_to_group", words)

    @command
    def do_act_prof_remove_member_from_group(self, words: list[str]) -> None:
        """Take a member out of a group.

        act_prof_remove_member_from_group <action profile name> <member handle> <group handle>
        """
        self._change_group("bm_mt_act_prof_remove_member_from_group", words)

    @command
    def do_act_prof_dump(self, words: list[str]) -> None:
        """Print the members and groups of an action profile: act_prof_dump <action profile name>."""
        exactly(words, 1)
        self._dump(self._profile(words[0]))

    def _dump(self, profile: Profile) -> None:
        members = self.switch.of("bm_mt_act_prof_get_members", profile.name)
        print(DOUBLE_LINE)
        print("MEMBERS")
        for member in members:
            print(STARS)
            _print_member(member)
        if profile.with_selection:
            groups = self.switch.of("bm_mt_act_prof_get_groups", profile.name)
            print(DOUBLE_LINE)
            print("GROUPS")
            for group in groups:
                print(STARS)
                _print_group(group)

    def print_profile_of(self, table: Table) -> None:
        """Print members and groups of an indirect table's profile."""
        if table.profile is not None:
            self._dump(table.profile)

    @command
    def do_act_prof_dump_member(self, words: list[str]) -> None:
        """Print a member: act_prof_dump_member <action profile name> <member handle>."""
        exactly(words, 2)
        profile = self._profile(words[0])
        handle = values.integer(words[1], "Bad format for member handle")
        _print_member(self.switch.of("bm_mt_act_prof_get_member", profile.name, handle))

    @command
    def do_act_prof_dump_group(self, words: list[str]) -> None:
        """Print a group: act_prof_dump_group <action profile name> <group handle>."""
        exactly(words, 2)
        profile = self._profile(words[0])
        handle = values.integer(words[1], "Bad format for group handle")
        _print_group(self.switch.of("bm_mt_act_prof_get_group", profile.name, handle))

    def _add(self, method: str, words: list[str], *, to_group: bool) -> None:
        at_least(words, 2)
        table = self.table(words[0])
        if to_group:
            _selecting(table)
        else:
            _indirect(table)
        rest = words[1:]
        priority = take_priority(table, rest)
        fields, after = split_key(rest)
        if len(after) != 1:
            raise CommandError("Invalid arguments, could not find handle")
        handle = values.integer(after[0], "Bad format for handle")
        key = values.match_key(table, fields, words[0])
        print("Adding entry to indirect match table", table.name)
        added = self.switch.of(method, table.name, key, handle, Options(priority))
        print("Entry has been added with handle", added)

    @command
    def do_table_indirect_add(self, words: list[str]) -> None:
        """Add an entry that points to a member.

        table_indirect_add <table name> <match fields> => <member handle> [priority]
        """
        self._add("bm_mt_indirect_add_entry", words, to_group=False)

    @command
    def do_table_indirect_add_with_group(self, words: list[str]) -> None:
        """Add an entry that points to a group.

        table_indirect_add_with_group <table name> <match fields> => <group handle> [priority]
        """
        self._add("bm_mt_indirect_ws_add_entry", words, to_group=True)

    @command
    def do_table_indirect_delete(self, words: list[str]) -> None:
        """Delete an entry of an indirect table: table_indirect_delete <table name> <entry handle>."""
        exactly(words, 2)
        table = self.table(words[0])
        _indirect(table)
        handle = values.integer(words[1], "Bad format for entry handle")
        print("Deleting entry", handle, "from", words[0])
        self.switch.of("bm_mt_indirect_delete_entry", table.name, handle)

    def _set_default(self, method: str, words: list[str], *, to_group: bool) -> None:
        exactly(words, 2)
        table = self.table(words[0])
        if to_group:
            _selecting(table)
        else:
            _indirect(table)
        handle = values.integer(words[1], "Bad format for handle")
        self.switch.of(method, table.name, handle)

    @command
    def do_table_indirect_set_default(self, words: list[str]) -> None:
        """Make a member the default of an indirect table.

        table_indirect_set_default <table name> <member handle>
        """
        self._set_default("bm_mt_indirect_set_default_member", words, to_group=False)

    @command
    def do_table_indirect_set_default_with_group(self, words: list[str]) -> None:
        """Make a group the default of an indirect table.

        table_indirect_set_default_with_group <table name> <group handle>
        """
        self._set_default("bm_mt_indirect_ws_set_default_group", words, to_group=True)

    @command
    def do_table_indirect_reset_default(self, words: list[str]) -> None:
        """Return to the program's default of an indirect table: table_indirect_reset_default <table name>."""
        exactly(words, 1)
        self.switch.of("bm_mt_indirect_reset_default_entry", self.table(words[0]).name)

    do_table_indirect_create_member = _by_table(
        "act_prof_create_member",
        "Create a member: table_indirect_create_member <table name> <action name> [action parameters]",
    )
    do_table_indirect_delete_member = _by_table(
        "act_prof_delete_member",
        "Delete a member: table_indirect_delete_member <table name> <member handle>",
    )
    do_table_indirect_modify_member = _by_table(
        "act_prof_modify_member",
        "Change a member:\ntable_indirect_modify_member <table name> <action name> <member handle>"
        " [action parameters]",
    )
    do_table_indirect_create_group = _by_table(
        "act_prof_create_group",
        "Create a group: table_indirect_create_group <table name>",
        selecting=True,
    )
    do_table_indirect_delete_group = _by_table(
        "act_prof_delete_group",
        "Delete a group: table_indirect_delete_group <table name> <group handle>",
        selecting=True,
    )
    do_table_indirect_add_member_to_group = _by_table(
        "act_prof_add_member_to_group",
        "Put a member into a group:\n"
        "table_indirect_add_member_to_group <table name> <member handle> <group handle>",
        selecting=True,
    )
    do_table_indirect_remove_member_from_group = _by_table(
        "act_prof_remove_member_from_group",
        "Take a member out:\n"
        "table_indirect_remove_member_from_group <table name> <member handle> <group handle>",
        selecting=True,
    )
    do_table_dump_member = _by_table(
        "act_prof_dump_member",
        "Print a member: table_dump_member <table name> <member handle>",
        deprecated=False,
    )
    do_table_dump_group = _by_table(
        "act_prof_dump_group",
        "Print a group: table_dump_group <table name> <group handle>",
        deprecated=False,
    )

    complete_act_prof_delete_member = Shell.complete_profiles
    complete_act_prof_create_group = Shell.complete_profiles
    complete_act_prof_delete_group = Shell.complete_profiles
    complete_act_prof_add_member_to_group = Shell.complete_profiles
    complete_act_prof_remove_member_from_group = Shell.complete_profiles
    complete_act_prof_dump = Shell.complete_profiles
    complete_act_prof_dump_member = Shell.complete_profiles
    complete_act_prof_dump_group = Shell.complete_profiles
    complete_table_indirect_add = Shell.complete_tables
    complete_table_indirect_add_with_group = Shell.complete_tables
    complete_table_indirect_delete = Shell.complete_tables
    complete_table_indirect_set_default = Shell.complete_tables
    complete_table_indirect_set_default_with_group = Shell.complete_tables
    complete_table_indirect_reset_default = Shell.complete_tables

    def complete_act_prof_create_member(self, text: str, line: str, *_: Any) -> list[str]:
        """Profiles, then their actions."""
        return self.complete_with_action(self.program.profiles, text, line)

    complete_act_prof_modify_member = complete_act_prof_create_member
