# SPDX-License-Identifier: Apache-2.0
"""Reports of packets that passed: all of them, or one in N of each flow."""

from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import GREEN, IPV6, RED
from weir.ptftests.packets import SRC_IP, SRC_IP6
from weir.ptftests.reports import FIRST, SECOND, sequence_gaps
from weir.ptftests.traffic import Frames


class Enqueuing(WeirTest):
    """A watched policer whose red packets are dropped."""

    frames = 10_000

    def setUp(self) -> None:
        super().setUp()
        self.install(
            entries.token_bucket(self.cell, entries.burst_of(self.frames)),
            entries.verdict(self.cell, RED, "drop_packet"),
            entries.police_shared(self.cell, watched=True, src=entries.ip(SRC_IP)),
        )

    def report_enqueued(self, every: int, congested_at: int = 0) -> None:
        """Report packets that pass to the first collector."""
        self.install(
            entries.report_enqueued(
                self.cell, FIRST.session, FIRST.number, every=every, congested_at=congested_at
            )
        )

    def exchange(self, frames: list[bytes]) -> Frames:
        """Send frames into port 1; the frames that leave, with the reports that egress mirrors."""
        return self.traffic.exchange(1, frames, rounds=2)

    def flow(self, number: int, count: int) -> list[bytes]:
        """Frames of a flow that only this test uses, as the pipeline never resets a flow's packet count."""
        return packets.numbered(count, packets.FRAME_BYTES, src_port=20_000 + self.cell // 64 + number)


class EveryPacketThatPassesIsReportedIfAsked(Enqueuing):
    def runTest(self) -> None:
        self.report_enqueued(every=1)
        sent = self.flow(0, 40)
        left = self.exchange(sent)
        self.assertEqual(left[2], sent)
        found = self.reports.decode(left[FIRST.port])
        self.assertEqual([report.inner for report in found], sent)
        self.assertEqual([report.packet_number for report in found], list(range(1, 41)))
        self.assertEqual(sequence_gaps(found), [])


class AnEnqueueReportSaysThatThePacketPassedAndWhen(Enqueuing):
    def runTest(self) -> None:
        self.report_enqueued(every=1)
        (report,) = self.reports.decode(self.exchange(self.flow(0, 1))[FIRST.port])
        self.assertEqual((report.dropped, report.congested, report.tracked), (False, False, False))
        self.assertEqual((report.drop_reason, report.queue_id, report.drop_queue_id), (0, 0, 0))
        self.assertEqual(
            (report.policer, report.colour, report.wire_length), (self.cell, GREEN, packets.FRAME_BYTES)
        )
        self.assertGreater(report.ingress_ns, 0)
        self.assertGreaterEqual(report.egress_ns, report.ingress_ns)


class OneInNOfEachFlowIsReportedStartingWithTheFirst(Enqueuing):
    def runTest(self) -> None:
        self.report_enqueued(every=4)
        one, other = self.flow(0, 12), self.flow(1, 6)
        sent = [frame for pair in zip(one, other, strict=False) for frame in pair] + one[6:]
        left = self.exchange(sent)
        self.assertEqual(left[2], sent)
        inner = [report.inner for report in self.reports.decode(left[FIRST.port])]
        self.assertEqual([frame for frame in inner if frame in one], one[::4])
        self.assertEqual([frame for frame in inner if frame in other], other[::4])
        self.assertEqual(len(inner), 3 + 2)


class DroppedPacketsAreNotReportedAsEnqueued(Enqueuing):
    frames = 3

    def runTest(self) -> None:
        self.report_enqueued(every=1)
        self.install(entries.report_drops(self.cell, SECOND.session, SECOND.number))
        sent = self.flow(0, 8)
        left = self.exchange(sent)
        passed = self.reports.decode(left[FIRST.port], FIRST)
        dropped = self.reports.decode(left[SECOND.port], SECOND)
        self.assertEqual(left[2], sent[:3])
        self.assertEqual([report.inner for report in passed], sent[:3])
        self.assertEqual([report.inner for report in dropped], sent[3:])
        # Both kinds share one packet count.
        numbers = [report.packet_number for report in passed + dropped]
        self.assertEqual(numbers, list(range(1, 9)))


class APolicerThatIsNotWatchedHasNoEnqueueReports(WeirTest):
    def runTest(self) -> None:
        self.install(
            entries.police_shared(self.cell, watched=False, src=entries.ip(SRC_IP)),
            entries.report_enqueued(self.cell, FIRST.session, FIRST.number, every=1),
        )
        sent = packets.numbered(5)
        self.assertEqual(self.traffic.exchange(1, sent, rounds=2), {1: [], 2: sent, 3: [], 4: []})


class TheInnerPacketIsTheOneThatCameInEvenIfThePolicerRewroteIt(Enqueuing):
    def runTest(self) -> None:
        self.report_enqueued(every=1)
        self.install(
            entries.verdict(self.cell, GREEN, "remark_dscp", dscp=46),
            entries.police_shared(self.cell, table=IPV6, watched=True, src=entries.ip(SRC_IP6)),
        )
        flow = {"src_port": 30_000 + self.cell // 64}
        header = packets.IPv6(src=SRC_IP6, dst=packets.DST_IP6, tc=0x29)
        six = packets.sized(
            packets.ethernet() / header / packets.UDP(sport=flow["src_port"]), packets.FRAME_BYTES
        )
        sent = [packets.udp(packets.FRAME_BYTES, tos=0x29, **flow), six]
        left = self.exchange(sent)
        header.tc = 46 << 2 | 1
        six_after = packets.sized(
            packets.ethernet() / header / packets.UDP(sport=flow["src_port"]), packets.FRAME_BYTES
        )
        self.assertEqual(left[2], [packets.udp(packets.FRAME_BYTES, tos=46 << 2 | 1, **flow), six_after])
        self.assertEqual([report.inner for report in self.reports.decode(left[FIRST.port])], sent)
