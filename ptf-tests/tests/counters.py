# SPDX-License-Identifier: Apache-2.0
"""Counters agree with the packets: per policer and colour, per port, per drop reason."""

from weir.controlplane.entities import Count
from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import GREEN, RED, YELLOW
from weir.ptftests.expect import REASON_POLICER

LONG_BYTES = 1500
"""Half a frame is more than the bytes that a bucket gains on a target that does not count its tokens once."""


class EveryPacketOfAPolicerIsCountedInOneColourWithItsBytes(WeirTest):
    def runTest(self) -> None:
        length = packets.FRAME_BYTES if self.can.counts_tokens_once else LONG_BYTES
        self.install(
            entries.two_rate(self.cell, entries.burst_of(3, length), entries.burst_of(7, length)),
            entries.verdict(self.cell, RED, "drop_packet"),
            entries.police_shared(self.cell, src=entries.ip(packets.SRC_IP)),
        )
        self.traffic.exchange(1, packets.numbered(20, length))
        colours = [GREEN] * 3 + [YELLOW] * 4 + [RED] * 13
        self.assert_colours(self.cell, ((length, colour) for colour in colours))


class DropsOfAPolicerAreCountedByReason(WeirTest):
    def runTest(self) -> None:
        self.install(
            entries.token_bucket(self.cell, entries.burst_of(4)),
            entries.verdict(self.cell, RED, "drop_packet"),
            entries.police_shared(self.cell, src=entries.ip(packets.SRC_IP)),
        )
        before = self.control.counts("drop_counter", [REASON_POLICER])[REASON_POLICER]
        self.traffic.exchange(1, packets.numbered(10, packets.FRAME_BYTES))
        after = self.control.counts("drop_counter", [REASON_POLICER])[REASON_POLICER]
        more = Count(after.packets - before.packets, after.bytes - before.bytes)
        self.assertEqual(more, Count(6, 6 * packets.FRAME_BYTES))


class PortsCountWhatEntersAndWhatLeaves(WeirTest):
    def runTest(self) -> None:
        entered, left = self.p4_port(1), self.p4_port(2)
        frames = packets.numbered(10, packets.FRAME_BYTES)
        counters = {"ingress_port_counter": entered, "egress_port_counter": left}
        counted = {}
        # The sentinels of an exchange are counted too; an exchange without frames gives their number.
        for sent in ([], frames):
            before = {name: self.control.counts(name, [port])[port] for name, port in counters.items()}
            self.traffic.exchange(1, sent)
            for name, port in counters.items():
                after = self.control.counts(name, [port])[port]
                counted[name, bool(sent)] = Count(
                    after.packets - before[name].packets, after.bytes - before[name].bytes
                )
        for name in counters:
            more = counted[name, True].packets - counted[name, False].packets
            more_bytes = counted[name, True].bytes - counted[name, False].bytes
            self.assertEqual((more, more_bytes), (10, 10 * packets.FRAME_BYTES), name)
