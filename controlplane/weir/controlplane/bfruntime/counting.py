# SPDX-License-Identifier: Apache-2.0
"""A session whose counters begin at a moment of its own.

Over BfRuntime, loading the program would empty them too, but takes all ports down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir.controlplane.bfruntime.session import BfRtSession
from weir.controlplane.entities import Count
from weir.controlplane.errors import ReadError


class CountingSession(BfRtSession):
    """As :class:`BfRtSession`; counters have what was counted since :meth:`count_from_now` read them."""

    _zeros: Mapping[tuple[str, int], Count] = {}

    async def count_from_now(self, cells: Mapping[str, Sequence[int]]) -> None:
        """Let these cells, by counter, be 0 now; all other cells are as the switch has them."""
        zeros: dict[tuple[str, int], Count] = {}
        for counter, indices in cells.items():
            found = await super().counts(counter, indices)
            zeros |= {(counter, index): count for index, count in found.items()}
        self._zeros = zeros

    async def counts(self, counter: str, indices: Sequence[int]) -> dict[int, Count]:
        """As :meth:`BfRtSession.counts`, less what the cells had.

        Raises also ReadError for a cell that has less now: somebody has reset it, or loaded the program anew.
        """
        counts = {}
        for index, now in (await super().counts(counter, indices)).items():
            then = self._zeros.get((counter, index), Count(0, 0))
            if now.packets < then.packets or now.bytes < then.bytes:
                raise ReadError(
                    f"counter {counter} index {index} of the switch at {self.address} went back from "
                    f"{then.packets} to {now.packets} packets; valid: a switch whose counters nobody resets, "
                    "and whose program nobody loads, meanwhile"
                )
            counts[index] = Count(now.packets - then.packets, now.bytes - then.bytes)
        return counts
