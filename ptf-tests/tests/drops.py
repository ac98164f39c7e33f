# SPDX-License-Identifier: Apache-2.0
"""Reports of packets that a policer dropped."""

import time
from itertools import pairwise

from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import RED
from weir.ptftests.expect import REASON_POLICER
from weir.ptftests.reports import FIRST, INNER_BYTES, SECOND, sequence_gaps


class Dropping(WeirTest):
    """A policer that drops packets after a number of them."""

    frames = 0

    def setUp(self) -> None:
        super().setUp()
        self.install(
            *self.passing(self.cell, self.frames),
            entries.verdict(self.cell, RED, "drop_packet"),
            entries.police_shared(self.cell, src=entries.ip(packets.SRC_IP)),
        )

    def report_to_first(self) -> None:
        """Reports of the test's cell go to the first collector."""
        self.install(entries.report_drops(self.cell, FIRST.session, FIRST.number))


class EveryDroppedPacketOfABurstIsReportedOnceAndInOrder(Dropping):
    frames = 100

    def runTest(self) -> None:
        self.report_to_first()
        sent = packets.numbered(400, packets.FRAME_BYTES)
        reports_before = self.reports.sent()
        left = self.traffic.exchange(1, sent)
        self.assertEqual(left[2][:100], sent[:100])
        if self.can.counts_tokens_once:
            self.assertEqual(len(left[2]), 100)
        passed = set(left[2])
        dropped = {number: frame for number, frame in enumerate(sent, 1) if frame not in passed}
        self.assertEqual(len(left[2]) + len(dropped), len(sent))
        self.assertGreaterEqual(len(dropped), 200)
        found = self.reports.decode(left[FIRST.port])
        self.assertEqual([report.inner for report in found], list(dropped.values()))
        self.assertEqual([report.packet_number for report in found], list(dropped))
        self.assertEqual(sequence_gaps(found), [])
        self.assertEqual(self.reports.sent() - reports_before, len(dropped))


class AReportSaysWhichPolicerDroppedWhatAndWhy(Dropping):
    def runTest(self) -> None:
        self.report_to_first()
        frame = packets.tcp(1000)
        (report,) = self.reports.decode(self.traffic.exchange(1, [frame])[FIRST.port])
        self.assertEqual(
            (report.policer, report.colour, report.drop_reason), (self.cell, RED, REASON_POLICER)
        )
        self.assertEqual((report.dropped, report.congested, report.tracked), (True, False, False))
        self.assertEqual(report.wire_length, 1000)
        # It never had a queue.
        self.assertEqual((report.queue_id, report.queue_occupancy, report.drop_queue_id), (0, 0, 0))
        self.assertEqual(report.egress_ns, 0)


class AFrameBeyondTheInnerLengthIsCutAndAShorterOneIsWhole(Dropping):
    needs = ("short_frames",)

    def runTest(self) -> None:
        self.report_to_first()
        lengths = [1514, INNER_BYTES + 1, INNER_BYTES, INNER_BYTES - 1, 61, 62, 63, 64, 50, 43]
        sent = [packets.udp(length, id=length) for length in lengths]
        found = self.reports.decode(self.traffic.exchange(1, sent)[FIRST.port])
        self.assertEqual([report.inner for report in found], [frame[:INNER_BYTES] for frame in sent])
        least = 0 if self.can.frame_length else packets.MIN_FRAME_BYTES
        self.assertEqual([report.wire_length for report in found], [max(length, least) for length in lengths])


class IngressTimesAreThoseOfTheSwitchsClock(Dropping):
    needs = ("keeps_time",)

    def runTest(self) -> None:
        # Each exchange waits for the one before, so the times rise. They span at most the time that our clock
        # measured around all exchanges, with a tolerance: clocks of computers differ by less than 1 in 1000,
        # and v1model's resolution adds 1 µs at both ends.
        self.report_to_first()
        before_ns = time.monotonic_ns()
        found = []
        for frame in packets.numbered(20, packets.FRAME_BYTES):
            found += self.reports.decode(self.traffic.exchange(1, [frame])[FIRST.port])
        elapsed_ns = time.monotonic_ns() - before_ns
        self.assertEqual(len(found), 20)
        for one, other in pairwise(found):
            self.assertLess(one.ingress_ns, other.ingress_ns)
        self.assertLess(found[-1].ingress_ns - found[0].ingress_ns, elapsed_ns * 1.001 + 2000)


class ADropWithoutAReportEntryIsNotReported(Dropping):
    def runTest(self) -> None:
        left = self.traffic.exchange(1, packets.numbered(5))
        self.assertEqual(left, {1: [], 2: [], 3: [], 4: []})


class EachCollectorGetsItsPolicersReportsInASeparateSequence(Dropping):
    def runTest(self) -> None:
        other = self.cell + 1
        self.report_to_first()
        self.install(
            *self.passing(other, 0),
            entries.verdict(other, RED, "drop_packet"),
            entries.police_shared(other, priority=entries.PRIORITY + 1, src_port=7),
            entries.report_drops(other, SECOND.session, SECOND.number),
        )
        mine, others = packets.numbered(20), packets.numbered(30, src_port=7)
        mixed = [frame for pair in zip(mine, others, strict=False) for frame in pair] + others[20:]
        left = self.traffic.exchange(1, mixed)
        first = self.reports.decode(left[FIRST.port], FIRST)
        second = self.reports.decode(left[SECOND.port], SECOND)
        self.assertEqual([report.inner for report in first], mine)
        self.assertEqual([report.inner for report in second], others)
        self.assertEqual({report.policer for report in first}, {self.cell})
        self.assertEqual({report.policer for report in second}, {other})
        self.assertEqual(sequence_gaps(first) + sequence_gaps(second), [])
