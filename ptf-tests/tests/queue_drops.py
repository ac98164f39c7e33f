# SPDX-License-Identifier: Apache-2.0
"""Drops of a full egress queue are reported: packet by packet where the switch deflects them, else by number.

Which packets find the queue full depends on the switch's threads. The sum is exact: every packet that was
sent leaves or is reported.
"""

from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.expect import REASONS
from weir.ptftests.packets import host_mac, mac_number
from weir.ptftests.reports import FIRST

FRAMES = 40
# The queue holds 4 packets and sends 10 in a second: 40 packets that come within 3.5 s overflow it.
QUEUE_PACKETS, QUEUE_PACKETS_PER_S = 4, 10


class FullQueue(WeirTest):
    """The queue to station 2 is slow and short; those to the others are not."""

    needs: tuple[str, ...] = ("shapes_queues",)

    def fill(self, frames: list[bytes], collector_port: int | None) -> tuple[list[bytes], list[bytes]]:
        """Send through the queue; the frames that reached station 2, and those at the first collector."""
        self.addCleanup(self.device.restore_queue, 2)
        self.device.slow_queue(2, QUEUE_PACKETS, QUEUE_PACKETS_PER_S, packets.FRAME_BYTES, collector_port)
        while_full = self.traffic.exchange(1, frames, ports=(FIRST.port,))[FIRST.port]
        self.device.restore_queue(2)
        after = self.traffic.exchange(1, [], (2, FIRST.port), rounds=2)
        return after[2], while_full + after[FIRST.port]


class EveryPacketThatAQueueDroppedIsReportedOnceWhereTheSwitchDeflects(FullQueue):
    needs = ("shapes_queues", "deflects_queue_drops")

    def runTest(self) -> None:
        self.install(entries.report_queue_drops(self.p4_port(2), FIRST.session, FIRST.number))
        sent = packets.numbered(FRAMES, packets.FRAME_BYTES)
        left, reported = self.fill(sent, FIRST.port)
        found = self.reports.decode(reported)
        self.assertTrue(found, "the queue dropped nothing")
        self.assertEqual(sorted([*left, *(report.inner for report in found)]), sorted(sent))
        self.assertEqual({report.drop_reason for report in found}, {REASONS["queue"]})
        self.assertEqual({(report.dropped, report.congested) for report in found}, {(True, True)})
        self.assertTrue(all(report.queue_occupancy > 0 for report in found))
        self.assertEqual(
            {(report.wire_length, report.policer) for report in found}, {(packets.FRAME_BYTES, 0)}
        )


class EveryPacketThatTheModelDeflectsIsReportedOnce(WeirTest):
    needs = ("deflects_every_tenth",)

    def runTest(self) -> None:
        self.install(entries.report_queue_drops(self.p4_port(2), FIRST.session, FIRST.number))
        sent = packets.numbered(FRAMES, packets.FRAME_BYTES)
        for frame in sent:  # without sentinels, which would be deflected too
            self.traffic.send(1, frame)
        left = self.traffic.await_frames(2, FRAMES - FRAMES // 10)
        found = self.reports.decode(self.traffic.await_frames(FIRST.port, FRAMES // 10))
        self.assertEqual(sorted([*left, *(report.inner for report in found)]), sorted(sent))
        self.assertEqual({report.drop_reason for report in found}, {REASONS["queue"]})
        self.assertEqual({(report.dropped, report.congested) for report in found}, {(True, True)})
        self.assertEqual(
            {(report.wire_length, report.policer) for report in found}, {(packets.FRAME_BYTES, 0)}
        )


class ThePacketAfterAGapReportsHowManyTheQueueDropped(FullQueue):
    def runTest(self) -> None:
        station = mac_number(host_mac(2))
        self.control.delete(entries.forward(station, self.p4_port(2)))
        self.install(
            entries.forward_numbered(station, self.p4_port(2)),
            entries.report_queue_drops(self.p4_port(2), FIRST.session, FIRST.number),
        )
        # The first packet's number may continue a gap that another test left.
        self.traffic.exchange(1, packets.numbered(1, packets.FRAME_BYTES), rounds=2)
        sent = packets.numbered(FRAMES, packets.FRAME_BYTES)
        left, reported = self.fill(sent, None)
        more = self.traffic.exchange(1, [packets.udp(packets.FRAME_BYTES, id=9999)], rounds=2)
        found = self.reports.decode(reported + more[FIRST.port])
        lost = len(sent) - len(left)
        self.assertGreater(lost, 0, "the queue dropped nothing")
        self.assertEqual(sum(report.queue_lost for report in found), lost)
        self.assertTrue(all(report.queue_lost and report.congested for report in found))
        self.assertEqual({report.dropped for report in found}, {False})


class EnqueueReportsSayHowFullTheQueueWasAndWhetherThatIsCongestion(FullQueue):
    def runTest(self) -> None:
        # More than an empty queue and, where occupancy is in bytes, more than one packet; less than the
        # limit.
        congested_at = 2
        self.install(
            entries.police_shared(self.cell, watched=True, src=entries.ip(packets.SRC_IP)),
            entries.report_enqueued(
                self.cell, FIRST.session, FIRST.number, every=1, congested_at=congested_at
            ),
        )
        sent = packets.numbered(FRAMES, packets.FRAME_BYTES, src_port=30_000 + self.cell // 64)
        left, reported = self.fill(sent, None)
        found = self.reports.decode(reported)
        self.assertEqual([report.inner for report in found], left)
        for report in found:
            self.assertEqual(report.congested, report.queue_occupancy >= congested_at, report)
            self.assertGreaterEqual(report.egress_ns, report.ingress_ns)
        self.assertIn(True, {report.congested for report in found})
