# SPDX-License-Identifier: Apache-2.0
"""The two collectors of the tests: their entities on the switch, and the reports that reached them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from weir.ptftests import entries
from weir.ptftests.bfruntime_control import BfRtControl
from weir.ptftests.capabilities import Capabilities
from weir.ptftests.control import Control, Writable
from weir.ptftests.expect import Endpoint, Report, WrongReport, decode, payload_of
from weir.ptftests.packets import host_mac
from weir.ptftests.traffic import Traffic

INNER_BYTES = 256
MIRROR_HEADER_BYTES = 32
"""In front of a copy on Tofino."""
SEQUENCE_NUMBERS = 1 << 22


@dataclass(frozen=True, slots=True)
class Collector:
    """One collector: its number in the pipeline, its port and mirror session, and both ends' addresses."""

    number: int
    port: int
    session: int
    here: Endpoint
    switch: Endpoint
    node_id: int
    inner_bytes: int = INNER_BYTES


FIRST = Collector(
    number=1,
    port=3,
    session=11,
    here=Endpoint(host_mac(3), "10.0.0.9", 32766),
    switch=Endpoint("02:00:00:00:00:fe", "10.0.0.254", 32766),
    node_id=1,
)
SECOND = Collector(
    number=2,
    port=4,
    session=12,
    here=Endpoint(host_mac(4), "192.0.2.9", 6343),
    switch=Endpoint("02:00:00:00:00:fd", "192.0.2.254", 50000),
    node_id=0xC0FFEE,
)
COLLECTORS = (FIRST, SECOND)


class Reports:
    """Entities of the collectors, and decoding of reports."""

    def __init__(
        self,
        control: Control | BfRtControl,
        traffic: Traffic,
        p4_port: Callable[[int], int],
        can: Capabilities,
    ) -> None:
        """Write nothing yet."""
        self._control, self._traffic, self._p4_port, self._can = control, traffic, p4_port, can

    def entities(self, collectors: Sequence[Collector] = COLLECTORS) -> Iterator[Writable]:
        """Mirror sessions and entries of collectors."""
        for collector in collectors:
            cut = 0 if self._can.cuts_reports else collector.inner_bytes + MIRROR_HEADER_BYTES
            yield entries.session(collector.session, self._p4_port(collector.port), cut)
            yield self.collector(collector)

    def collector(self, collector: Collector) -> Writable:
        """The switch's entry for a collector."""
        return entries.collector(
            collector.number,
            switch=collector.switch,
            here=collector.here,
            node_id=collector.node_id,
            inner_bytes=collector.inner_bytes,
        )

    def decode(self, frames: Sequence[bytes], collector: Collector = FIRST) -> list[Report]:
        """Decode all frames that left through a collector's port as reports. Raises WrongReport."""
        found = [decode(payload_of(frame, collector.switch, collector.here)) for frame in frames]
        for report in found:
            if report.node_id != collector.node_id:
                raise WrongReport(f"node_id is {report.node_id}; valid: {collector.node_id}")
        return found

    def sent(self, collector: Collector = FIRST) -> int:
        """Reports that the switch has sent to a collector, by its counter."""
        return self._control.counts("report_counter", [collector.number])[collector.number].packets


def sequence_gaps(found: Sequence[Report]) -> list[tuple[int, int]]:
    """Sequence numbers of adjacent reports that do not follow each other."""
    pairs = itertools.pairwise(found)
    return [
        (one.sequence, other.sequence)
        for one, other in pairs
        if other.sequence != (one.sequence + 1) % SEQUENCE_NUMBERS
    ]
