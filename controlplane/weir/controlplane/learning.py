# SPDX-License-Identifier: Apache-2.0
"""Which flow of a learned policer has which cell: allocation, ageing, exhaustion. Pure: no connection.

A flow that finds no cell stays where the pipeline puts it meanwhile, in a hashed cell: a flood of new flows
takes nothing from known ones. `FlowLearner.status` says how many there are; the pipeline's
`unlearned_counter` counts their packets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from finsy import P4DigestEntry, P4DigestList

from weir.controlplane.entities import Match, TableEntry
from weir.controlplane.errors import ReadError

TABLES: Mapping[str, str] = {"flow_digest_t": "flow_policer", "flow_ipv6_digest_t": "flow_policer_ipv6"}
"""The table that holds the flows of each digest."""
_KEYS = ("dst", "dst_port", "protocol", "src", "src_port")
# One message in a list: a flow waits for nobody. The pipeline repeats what it does not know, so lists may be
# lost.
DIGESTS = tuple(
    P4DigestEntry(name, max_list_size=1, max_timeout_ns=0, ack_timeout_ns=1_000_000_000) for name in TABLES
)
"""What has the switch announce new flows."""
_REMEMBERED = 1 << 16


@dataclass(frozen=True, slots=True)
class LearningStatus:
    """How a learned policer stands: flows with a cell, cells that are free, flows that found none.

    `flows_without_cell` counts a flow once, but no more than 65,536 are told apart.
    """

    flows_with_cell: int
    cells_free: int
    flows_without_cell: int


class FlowLearner:
    """Which flow has which cell. Pure: digests in, table entries out."""

    def __init__(self, pools: Mapping[int, Sequence[int]]) -> None:
        """`pools`: for each learned policer, by its base cell, the cells that it may give away."""
        self._free = {base: list(reversed(cells)) for base, cells in pools.items()}
        self._entries: dict[tuple[str, tuple[Match, ...]], tuple[int, TableEntry]] = {}
        self._seen: dict[int, tuple[int, float]] = {}
        self._without: dict[int, set[tuple[str, tuple[Match, ...]]]] = {base: set() for base in pools}

    def entries(self, digest: P4DigestList) -> list[TableEntry]:
        """Entries for the flows of a digest that are new and find a cell.

        Raises:
            ReadError: the digest is none of weir's, or of a policer that has no pool.
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
            raise ReadError(f"a new flow of policer {base}; valid: {', '.join(map(str, self._free))}")
        key = table, tuple(Match(name, int(message[name])) for name in _KEYS)
        if key in self._entries:
            return None  # announced again before the switch had its entry
        if not self._free[base]:
            if len(self._without[base]) < _REMEMBERED:
                self._without[base].add(key)
            return None
        self._without[base].discard(key)
        entry = TableEntry(table, key[1], "set_flow_cell", (("cell", self._free[base].pop()),))
        self._entries[key] = base, entry
        return entry

    def adopt(self, entries: Sequence[TableEntry]) -> list[TableEntry]:
        """Take over the flows that a switch has entries for; returns those that no pool has room for."""
        strangers = []
        for entry in entries:
            cell = dict(entry.args).get("cell")
            base = next((base for base, free in self._free.items() if cell in free), None)
            if base is None or cell is None or (entry.table, entry.matches) in self._entries:
                strangers.append(entry)
                continue
            self._free[base].remove(cell)
            self._entries[entry.table, entry.matches] = base, entry
        return strangers

    @property
    def cells(self) -> list[int]:
        """The cells that flows have."""
        return [dict(entry.args)["cell"] for _, entry in self._entries.values()]

    def idle(
        self, packets: Mapping[int, int], now_s: float, limits_s: Mapping[int, float]
    ) -> list[TableEntry]:
        """Entries of flows whose packets have not grown for their policer's limit; call it now and then.

        `packets` has, by cell, how many packets have met it; `limits_s` has a limit for each base.
        """
        found = []
        for base, entry in self._entries.values():
            cell = dict(entry.args)["cell"]
            seen, since_s = self._seen.get(cell, (-1, now_s))
            if cell not in packets or packets[cell] != seen:
                self._seen[cell] = packets.get(cell, seen), now_s
            elif base in limits_s and now_s - since_s >= limits_s[base]:
                found.append(entry)
        return found

    def forget(self, entry: TableEntry) -> None:
        """The flow of an entry is gone, and so is its entry: another one may have the cell.

        Raises:
            KeyError: the entry is none that was given out.
        """
        base, known = self._entries.pop((entry.table, entry.matches))
        cell = dict(known.args)["cell"]
        self._seen.pop(cell, None)
        self._free[base].append(cell)

    def status(self, base: int) -> LearningStatus:
        """How the policer with this base cell stands. Raises KeyError for one without a pool."""
        with_cell = sum(owner == base for owner, _ in self._entries.values())
        return LearningStatus(with_cell, len(self._free[base]), len(self._without[base]))
