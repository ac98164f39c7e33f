# SPDX-License-Identifier: Apache-2.0
"""Meter cells for the flows of learned policers: allocation, ageing, exhaustion. Pure, no I/O.

A flow for which no cell or no entry is free stays in the hashed cell that the pipeline uses until a flow is
learned, so a flood of new flows takes nothing from known ones. `FlowLearner.status` has the number of such
flows; the pipeline's `unlearned_counter` counts their packets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from finsy import P4DigestEntry

from weir.controlplane.connection import Digest
from weir.controlplane.entities import Match, TableEntry
from weir.controlplane.errors import ReadError

TABLES: Mapping[str, str] = {"flow_digest_t": "flow_policer", "flow_ipv6_digest_t": "flow_policer_ipv6"}
"""The table for the flows of each digest."""
_KEYS = ("dst", "dst_port", "protocol", "src", "src_port")
# One message per list, so that no flow waits for another. Lists may be lost: the pipeline announces a flow
# again until it has an entry.
DIGESTS = tuple(
    P4DigestEntry(name, max_list_size=1, max_timeout_ns=0, ack_timeout_ns=1_000_000_000) for name in TABLES
)
"""The digest entries that make the switch announce new flows."""
_MAX_WITHOUT_CELL = 1 << 16


@dataclass(frozen=True, slots=True)
class LearningStatus:
    """The status of a learned policer: flows with a cell, free cells, and flows for which none was free.

    Flows without a cell are also those that the switch's table had no room for.

    `flows_without_cell` counts each flow once, and at most 65,536.
    """

    flows_with_cell: int
    cells_free: int
    flows_without_cell: int


class FlowLearner:
    """The cells of all flows of learned policers. Pure: digests in, table entries out."""

    def __init__(self, pools: Mapping[int, Sequence[int]]) -> None:
        """`pools`: the cells for flows of each learned policer, by its base cell."""
        self._free = {base: list(reversed(cells)) for base, cells in pools.items()}
        self._entries: dict[tuple[str, tuple[Match, ...]], tuple[int, TableEntry]] = {}
        self.messages_skipped = 0
        """Messages of policers without a pool here."""
        self._full: set[str] = set()
        """Tables that had no room for an entry, until one of their flows is forgotten."""
        self._last_packets: dict[int, tuple[int, float]] = {}
        self._without_cell: dict[int, set[tuple[str, tuple[Match, ...]]]] = {base: set() for base in pools}

    def entries(self, digest: Digest) -> list[TableEntry]:
        """Entries for the flows of a digest that are new and for which a cell is free.

        A flow of a policer without a pool is skipped: its message was sent before that policer, one of an
        earlier phase, was taken off the switch.

        Raises:
            ReadError: the digest is unknown.
        """
        if digest.digest_id not in TABLES:
            raise ReadError(f"digest {digest.digest_id!r}; valid: {', '.join(TABLES)}")
        found = []
        for message in digest:
            entry = self._entry(TABLES[digest.digest_id], message)
            if entry is not None:
                found.append(entry)
        return found

    def _entry(self, table: str, message: Any) -> TableEntry | None:
        base = int(message["base"])
        if base not in self._free:
            self.messages_skipped += 1
            return None
        key = table, tuple(Match(name, int(message[name])) for name in _KEYS)
        if key in self._entries:
            return None  # announced again before the entry was written
        if not self._free[base] or table in self._full:
            self._leave_without_cell(base, key)
            return None
        self._without_cell[base].discard(key)
        entry = TableEntry(table, key[1], "set_flow_cell", (("cell", self._free[base].pop()),))
        self._entries[key] = base, entry
        return entry

    def _leave_without_cell(self, base: int, key: tuple[str, tuple[Match, ...]]) -> None:
        if len(self._without_cell[base]) < _MAX_WITHOUT_CELL:
            self._without_cell[base].add(key)

    def refuse(self, entry: TableEntry) -> None:
        """Free the cell of an entry for which the switch's table has no room; its flow keeps its hashed cell.

        No flow gets an entry in that table until one of its flows is forgotten.

        Raises:
            KeyError: the entry is unknown.
        """
        base, _ = self._entries[entry.table, entry.matches]
        self.forget(entry)
        self._leave_without_cell(base, (entry.table, entry.matches))
        self._full.add(entry.table)

    def adopt(self, entries: Sequence[TableEntry]) -> list[TableEntry]:
        """Adopt the flows that a switch has entries for; returns entries whose cell is unknown or in use."""
        rejected = []
        for entry in entries:
            cell = dict(entry.args).get("cell")
            base = next((base for base, free in self._free.items() if cell in free), None)
            if base is None or cell is None or (entry.table, entry.matches) in self._entries:
                rejected.append(entry)
                continue
            self._free[base].remove(cell)
            self._entries[entry.table, entry.matches] = base, entry
        return rejected

    @property
    def cells(self) -> list[int]:
        """The cells in use."""
        return [dict(entry.args)["cell"] for _, entry in self._entries.values()]

    def idle(
        self, packets: Mapping[int, int], now_s: float, limits_s: Mapping[int, float]
    ) -> list[TableEntry]:
        """Entries of flows without new packets for their policer's limit; to be called periodically.

        `packets` has the packet count of each cell; `limits_s` the limits by base cell.
        """
        found = []
        for base, entry in self._entries.values():
            cell = dict(entry.args)["cell"]
            last, since_s = self._last_packets.get(cell, (-1, now_s))
            if cell not in packets or packets[cell] != last:
                self._last_packets[cell] = packets.get(cell, last), now_s
            elif base in limits_s and now_s - since_s >= limits_s[base]:
                found.append(entry)
        return found

    def forget(self, entry: TableEntry) -> None:
        """Free the cell of an entry that was deleted from the switch.

        Raises:
            KeyError: the entry is unknown.
        """
        base, known = self._entries.pop((entry.table, entry.matches))
        cell = dict(known.args)["cell"]
        self._last_packets.pop(cell, None)
        self._full.discard(entry.table)
        self._free[base].append(cell)

    def status(self, base: int) -> LearningStatus:
        """The status of the policer with this base cell. Raises KeyError if it has no pool."""
        with_cell = sum(owner == base for owner, _ in self._entries.values())
        return LearningStatus(with_cell, len(self._free[base]), len(self._without_cell[base]))
