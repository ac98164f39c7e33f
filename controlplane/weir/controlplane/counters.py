# SPDX-License-Identifier: Apache-2.0
"""Reads a switch's counters, and sums those of each policer by colour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.controlplane.entities import Count
from weir.controlplane.errors import ControlPlaneError
from weir.controlplane.plan import COLOURS
from weir.controlplane.policer_plan import PolicerPlan
from weir.rundir.plural import plural

Counts = Callable[[str, Sequence[int]], Awaitable[dict[int, Count]]]
"""Reads the cells of a counter by index, as :meth:`Connection.counts`."""


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Frames received and sent by a port."""

    received: Count
    sent: Count


@dataclass(frozen=True, slots=True)
class PolicerCounters:
    """Counters of one policer: by colour, and all packets that met it."""

    name: str
    green: Count
    yellow: Count
    red: Count
    packets_met: int

    @property
    def consistent(self) -> bool:
        """Whether every packet that met the policer got a colour; the pipeline counts both independently."""
        return self.green.packets + self.yellow.packets + self.red.packets == self.packets_met

    def as_manifest(self) -> dict[str, Any]:
        """The counters in the form of a run's manifest."""
        colours = {"green": self.green, "yellow": self.yellow, "red": self.red}
        return {
            "counters": {
                name: {"packets": count.packets, "bytes": count.bytes} for name, count in colours.items()
            },
            "packets_met": self.packets_met,
        }


async def read_policers(counts: Counts, policers: Iterable[PolicerPlan]) -> dict[str, PolicerCounters]:
    """Counters of each policer by name."""
    policers = tuple(policers)
    indices = counters_of(policers)
    # The pipeline counts a packet in met_counter before its colour, so met_counter is read last.
    colours = await counts("policer_counter", indices["policer_counter"])
    met = await counts("met_counter", indices["met_counter"])
    return {policer.name: _sum(policer, colours, met) for policer in policers}


def counters_of(policers: Iterable[PolicerPlan]) -> dict[str, list[int]]:
    """The cells of each counter that have packets of these policers; :func:`read_policers` reads them."""
    cells = [cell for policer in policers for cell in cells_of(policer)]
    return {
        "policer_counter": [cell * 4 + colour for cell in cells for colour in range(4)],
        "met_counter": cells,
    }


def cells_of(policer: PolicerPlan) -> range:
    """All meter cells of a policer."""
    return range(policer.index, policer.index + policer.cells)


def _sum(policer: PolicerPlan, colours: Mapping[int, Count], met: Mapping[int, Count]) -> PolicerCounters:
    def of(colour: str) -> Count:
        parts = [colours[cell * 4 + COLOURS[colour]] for cell in cells_of(policer)]
        return Count(sum(part.packets for part in parts), sum(part.bytes for part in parts))

    # The fourth index of a cell belongs to no colour; packets counted there would be missing from every sum.
    stray = sum(colours[cell * 4 + 3].packets for cell in cells_of(policer))
    if stray:
        raise ControlPlaneError(
            f"policer {policer.name}: {plural(stray, 'packet')} of a colour that does not exist"
        )
    packets_met = sum(met[cell].packets for cell in cells_of(policer))
    return PolicerCounters(policer.name, of("green"), of("yellow"), of("red"), packets_met)
