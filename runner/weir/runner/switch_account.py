# SPDX-License-Identifier: Apache-2.0
"""A switch's account of its packets, by comparing counters that should be equal. Pure, but for one file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from weir.controlplane.counters import PortCounters
from weir.controlplane.entities import Count
from weir.rundir.manifest import PortStats
from weir.topo.interfaces import InterfaceCounters
from weir.topo.wiring import WireCounters

_MAC_BYTES = 6


@dataclass(frozen=True)
class PortMet:
    """One port since the pipeline was loaded, as kernel and program counted; `reports` left through it."""

    interface: str
    kernel: InterfaceCounters
    program: PortCounters
    reports: int = 0

    def since(self, before: PortMet) -> PortMet:
        """What was counted after ``before``."""
        return PortMet(
            self.interface,
            self.kernel.since(before.kernel),
            PortCounters(
                _less(self.program.received, before.program.received),
                _less(self.program.sent, before.program.sent),
            ),
            self.reports - before.reports,
        )


def _less(after: Count, before: Count) -> Count:
    return Count(after.packets - before.packets, after.bytes - before.bytes)


def port_stats(
    port: int,
    met: PortMet,
    wire: WireCounters | None,
    queue_drops: int | None,
    link_lost: int | None = None,
    *,
    strangers: bool = False,
) -> PortStats:
    """The manifest's record of a port; a queue that the switch does not account for has no drops set.

    Frames that the kernel delivered and the program did not meet were lost before the switch read them;
    those that the program sent and the kernel did not take could not be sent. `link_lost` are those that the
    port's own link lost between the two. With `strangers` frames may come on the cable that the program did
    not send, or to it that no host sent (`extra_frames`); without, they would be a defect and are negative.
    """
    fields: dict[str, int] = {
        "port": port,
        "rx_packets": met.program.received.packets,
        "rx_bytes": met.program.received.bytes,
        "rx_overruns": met.kernel.rx_packets - met.program.received.packets,
        "tx_packets": met.kernel.tx_packets,
        "tx_bytes": met.kernel.tx_bytes,
        "tx_errors": met.program.sent.packets + met.reports - (link_lost or 0) - met.kernel.tx_packets,
    }
    if strangers:
        fields["rx_overruns"] = max(0, fields["rx_overruns"])
        fields["tx_errors"] = max(0, fields["tx_errors"])
    if queue_drops is not None:
        fields["queue_drops"] = queue_drops
    if wire is not None:
        fields["rx_overruns"] += wire.overruns
        fields["tx_errors"] += wire.errors
        link_lost = wire.lost + (link_lost or 0)
    if link_lost is not None:
        fields["link_lost"] = link_lost
    return PortStats.model_validate({"interface": met.interface, **fields})


def extra_frames(met: PortMet, link_lost: int = 0) -> int:
    """Frames on a cable that neither a host nor the program sent, as far as others were not lost."""
    into = met.program.received.packets - met.kernel.rx_packets
    out = met.kernel.tx_packets - met.program.sent.packets - met.reports + link_lost
    return max(0, into) + max(0, out)


def gaps_by_port(telemetry: Path, ports: Mapping[str, int]) -> Counter[int]:
    """Packets that queues dropped by the reports of gaps in a `telemetry.parquet`, by port.

    The packet after a gap went through the same queue, so its destination MAC says which; `ports` is MAC →
    port.
    """
    by_address = {bytes.fromhex(mac.replace(":", "")): port for mac, port in ports.items()}
    found: Counter[int] = Counter()
    with pq.ParquetFile(telemetry) as file:
        for batch in file.iter_batches(columns=["queue_lost", "inner"]):
            gaps = batch.filter(pc.greater(batch["queue_lost"], 0))
            for lost, inner in zip(gaps["queue_lost"].to_pylist(), gaps["inner"].to_pylist(), strict=True):
                found[by_address[inner[:_MAC_BYTES]]] += lost
    return found
