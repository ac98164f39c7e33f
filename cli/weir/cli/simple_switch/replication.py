# SPDX-License-Identifier: Apache-2.0
"""Commands on multicast groups, link aggregation groups and mirroring sessions."""

from __future__ import annotations

import json

from weir.cli.simple_switch import values
from weir.cli.simple_switch.errors import CommandError
from weir.cli.simple_switch.services import CONTEXT, MirroringSessionConfig
from weir.cli.simple_switch.shell import Shell, at_least, command, exactly
from weir.cli.simple_switch.tables import DOUBLE_LINE, STARS

_BAD_GROUP = "Bad format for multicast group id"
_BAD_NODE = "Bad format for node handle"


def _list(numbers: list[int]) -> str:
    return f"[{', '.join(str(number) for number in numbers)}]"


def _maps(words: list[str]) -> tuple[str, str]:
    """The maps of ports and of aggregation groups, which `|` separates."""
    at = words.index("|") if "|" in words else len(words)
    return values.port_map(words[:at], "port"), values.port_map(words[at + 1 :], "lag")


class ReplicationCommands(Shell):
    """The commands."""

    @command
    def do_mc_mgrp_create(self, words: list[str]) -> None:
        """Create a multicast group: mc_mgrp_create <group id>."""
        exactly(words, 1)
        group = values.integer(words[0], _BAD_GROUP)
        print("Creating multicast group", group)
        self.switch.call("bm_mc_mgrp_create", CONTEXT, group)

    @command
    def do_mc_mgrp_destroy(self, words: list[str]) -> None:
        """Remove a multicast group: mc_mgrp_destroy <group id>."""
        exactly(words, 1)
        group = values.integer(words[0], _BAD_GROUP)
        print("Destroying multicast group", group)
        self.switch.call("bm_mc_mgrp_destroy", CONTEXT, group)

    @command
    def do_mc_node_create(self, words: list[str]) -> None:
        """Create a node, whose ports get copies with a replication id.

        mc_node_create <rid> <ports ...> [ | <lags ...> ]
        """
        at_least(words, 1)
        rid = values.integer(words[0], "Bad format for rid")
        ports, lags = _maps(words[1:])
        print("Creating node with rid", rid, ", port map", ports, "and lag map", lags)
        handle = self.switch.call("bm_mc_node_create", CONTEXT, rid, ports, lags)
        print("node was created with handle", handle)

    @command
    def do_mc_node_update(self, words: list[str]) -> None:
        """Replace the ports of a node: mc_node_update <node handle> <ports ...> [ | <lags ...> ]."""
        at_least(words, 2)
        node = values.integer(words[0], _BAD_NODE)
        ports, lags = _maps(words[1:])
        print("Updating node", node, "with port map", ports, "and lag map", lags)
        self.switch.call("bm_mc_node_update", CONTEXT, node, ports, lags)

    @command
    def do_mc_node_associate(self, words: list[str]) -> None:
        """Put a node into a multicast group: mc_node_associate <group id> <node handle>."""
        exactly(words, 2)
        group, node = values.integer(words[0], _BAD_GROUP), values.integer(words[1], _BAD_NODE)
        print("Associating node", node, "to multicast group", group)
        self.switch.call("bm_mc_node_associate", CONTEXT, group, node)

    @command
    def do_mc_node_dissociate(self, words: list[str]) -> None:
        """Take a node out of a multicast group: mc_node_dissociate <group id> <node handle>."""
        exactly(words, 2)
        group, node = values.integer(words[0], _BAD_GROUP), values.integer(words[1], _BAD_NODE)
        print("Dissociating node", node, "from multicast group", group)
        self.switch.call("bm_mc_node_dissociate", CONTEXT, group, node)

    @command
    def do_mc_node_destroy(self, words: list[str]) -> None:
        """Remove a node, also from its multicast group: mc_node_destroy <node handle>."""
        exactly(words, 1)
        node = values.integer(words[0], _BAD_NODE)
        print("Destroying node", node)
        self.switch.call("bm_mc_node_destroy", CONTEXT, node)

    @command
    def do_mc_set_lag_membership(self, words: list[str]) -> None:
        """Set the ports of a link aggregation group: mc_set_lag_membership <lag index> <ports ...>."""
        at_least(words, 2)
        lag = values.integer(words[0], "Bad format for lag index", 16)
        ports = values.port_map(words[1:], "lag")
        print("Setting lag membership:", lag, "<-", ports)
        self.switch.call("bm_mc_set_lag_membership", CONTEXT, lag, ports)

    @command
    def do_mc_dump(self, words: list[str]) -> None:
        """Print multicast groups with their nodes, and link aggregation groups: mc_dump."""
        text = self.switch.call("bm_mc_get_entries", CONTEXT)
        try:
            entries = json.loads(text)
            nodes = {node["handle"]: (node["rid"], node["l2_handle"]) for node in entries["l1_handles"]}
            maps = {part["handle"]: (part["ports"], part["lags"]) for part in entries["l2_handles"]}
            lines = []
            for group in entries["mgrps"]:
                lines += [STARS, f"mgrp({group['id']})"]
                for handle in group["l1_handles"]:
                    rid, part = nodes[handle]
                    ports, lags = maps[part]
                    lines.append(
                        f"  -> (L1h={handle}, rid={rid}) -> (ports={_list(ports)}, lags={_list(lags)})"
                    )
            lags = [f"lag({lag['id']}) -> ports={_list(lag['ports'])}" for lag in entries.get("lags", [])]
        except (ValueError, KeyError, TypeError):
            raise CommandError("Exception when retrieving MC entries") from None
        print("\n".join([DOUBLE_LINE, "MC ENTRIES", *lines, DOUBLE_LINE, "LAGS", *lags, DOUBLE_LINE]))

    def _session(self, word: str) -> int:
        return values.integer(word, "Bad format for mirror_id, expected integer")

    @command
    def do_mirroring_add(self, words: list[str]) -> None:
        """Let a mirroring session copy to a port: mirroring_add <mirror id> <egress port>."""
        exactly(words, 2)
        session = self._session(words[0])
        port = values.integer(words[1], "Bad format for egress_port, expected integer")
        self.switch.call("mirroring_session_add", session, MirroringSessionConfig(port=port))

    @command
    def do_mirroring_add_mc(self, words: list[str]) -> None:
        """Let a mirroring session copy to a multicast group: mirroring_add_mc <mirror id> <group id>."""
        exactly(words, 2)
        session = self._session(words[0])
        group = values.integer(words[1], "Bad format for mgrp, expected integer")
        self.switch.call("mirroring_session_add", session, MirroringSessionConfig(mgid=group))

    @command
    def do_mirroring_delete(self, words: list[str]) -> None:
        """Remove a mirroring session: mirroring_delete <mirror id>."""
        exactly(words, 1)
        self.switch.call("mirroring_session_delete", self._session(words[0]))

    @command
    def do_mirroring_get(self, words: list[str]) -> None:
        """Print where a mirroring session copies to: mirroring_get <mirror id>."""
        exactly(words, 1)
        print(self.switch.call("mirroring_session_get", self._session(words[0])))
