# SPDX-License-Identifier: Apache-2.0
"""Which bucket a packet meets, and when that bucket lacks tokens.

At one byte a second a bucket gains too little for another frame while a test runs (one that takes longer than
traffic.PATIENCE_S fails). So only the bursts decide, to the byte.
"""

import time

from finsy.proto import p4i

from weir.controlplane.cells import hashed_cell
from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import GREEN, RED, YELLOW
from weir.ptftests.expect import Report
from weir.ptftests.packets import DST_IP, DST_PORT, SRC_IP
from weir.ptftests.reports import FIRST

UDP = 17
AF11, AF12, AF13, EF = 10, 12, 14, 46
"""Codepoints of RFC 2597 and RFC 3246."""


class AllFlowsOfASharedPolicerEmptyOneBucket(WeirTest):
    def runTest(self) -> None:
        self.install(
            entries.token_bucket(self.cell, burst_bytes=entries.burst_of(10)),
            entries.verdict(self.cell, RED, "drop_packet"),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP), dst=entries.ip(DST_IP)),
        )
        flows = [packets.udp(src_port=port, id=number) for number in range(8) for port in (1001, 1002)]
        self.assertEqual(self.traffic.exchange(1, flows)[2], flows[:10])


class EachFlowOfAHashedPolicerMeetsTheCellOfItsHash(WeirTest):
    cells = 64

    def runTest(self) -> None:
        base, mask = self.cell, self.cells - 1
        ports = range(6000, 6100)
        cell_of = {port: hashed_cell(base, self.cells, SRC_IP, DST_IP, UDP, port, DST_PORT) for port in ports}
        self.install(
            *(entries.token_bucket(base + number, entries.burst_of(3)) for number in range(self.cells)),
            entries.verdict((base, 0xFFFF ^ mask), RED, "drop_packet"),
            entries.police_hashed(base, mask, protocol=UDP, dst_port=DST_PORT),
        )
        sent = [packets.udp(src_port=port, id=number) for number in range(2) for port in ports]
        left = self.traffic.exchange(1, sent)[2]
        met = self.control.counts("met_counter", set(cell_of.values()))
        for cell, count in met.items():
            here = sum(cell_of[port] == cell for port in ports)
            self.assertEqual(count.packets, 2 * here, f"packets that met cell {cell}")
        room = dict.fromkeys(met, 3)
        expected = []
        for number in range(2):
            for port in ports:
                if room[cell_of[port]]:
                    room[cell_of[port]] -= 1
                    expected.append(packets.udp(src_port=port, id=number))
        self.assertEqual(left, expected)


class ATokenBucketPassesItsBurstAndThenNothing(WeirTest):
    needs = ("exact_buckets",)

    def runTest(self) -> None:
        burst_bytes = 5 * packets.FRAME_BYTES + 90
        self.install(
            entries.token_bucket(self.cell, burst_bytes),
            entries.verdict(self.cell, RED, "drop_packet"),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
        )
        big = packets.numbered(8, packets.FRAME_BYTES)
        # 90 bytes of the burst are left: enough for one frame of 60, and at one byte a second not for
        # two (30 s).
        small = packets.numbered(2, 60)
        self.assertEqual(self.traffic.exchange(1, [*big, *small])[2], [*big[:5], small[0]])


class AFloodedPacketMeetsItsPolicerOnce(WeirTest):
    def runTest(self) -> None:
        self.install(
            entries.token_bucket(self.cell, burst_bytes=entries.burst_of(2)),
            entries.verdict(self.cell, RED, "drop_packet"),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
        )
        unknown_mac = bytes.fromhex("020000000077")
        sent = [unknown_mac + frame[6:] for frame in packets.numbered(3, packets.FRAME_BYTES)]
        passed = sent[:2]
        self.assertEqual(self.traffic.exchange(1, sent), {1: [], 2: passed, 3: passed, 4: passed})
        self.assert_colours(self.cell, [(packets.FRAME_BYTES, colour) for colour in (GREEN, GREEN, RED)])


class ThreeColoursOfTwoRatesFollowRfc2698(WeirTest):
    needs = ("exact_buckets",)

    def runTest(self) -> None:
        # RFC 2698, section 3, colour-blind: red if the peak bucket lacks the bytes; else it loses them, and
        # the packet is yellow if the committed bucket lacks them, else green. A red packet takes no tokens.
        committed_bytes, peak_bytes = 3 * packets.FRAME_BYTES, 5 * packets.FRAME_BYTES
        self.install(
            entries.two_rate(self.cell, committed_bytes, peak_bytes),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
        )
        whole = packets.FRAME_BYTES
        sizes = [whole, whole, 4 * whole, whole, whole, whole, 60]
        colours = [GREEN, GREEN, RED, GREEN, YELLOW, YELLOW, RED]
        sent = [packets.udp(size, id=number) for number, size in enumerate(sizes)]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)
        self.assert_colours(self.cell, zip(sizes, colours, strict=True))


class ThreeColoursOfOneRateFollowRfc2697(WeirTest):
    needs = ("exact_buckets", "single_rate_three_colours")
    policer = p4i.MeterSpec.SINGLE_RATE_THREE_COLOR

    def runTest(self) -> None:
        # RFC 2697, section 3, colour-blind: green if the committed bucket has the bytes, which it then loses;
        # else yellow if the excess bucket has them, which it then loses; else red, which takes no tokens.
        self.install(
            entries.single_rate(self.cell, 3 * packets.FRAME_BYTES, 2 * packets.FRAME_BYTES),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
        )
        whole = packets.FRAME_BYTES
        sizes = [whole, whole, 2 * whole + 1, 2 * whole - 50, whole, 60]
        colours = [GREEN, GREEN, RED, YELLOW, GREEN, RED]
        sent = [packets.udp(size, id=number) for number, size in enumerate(sizes)]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)
        self.assert_colours(self.cell, zip(sizes, colours, strict=True))


class APacketLeavesAColourAwareMeterNoBetterThanItCameIn(WeirTest):
    needs = ("colour_aware",)

    def runTest(self) -> None:
        # RFC 2698, section 3, colour-aware, with drop precedences of RFC 2597. The peak bucket holds seven
        # and a half frames, the committed one four and a half. A red packet takes from neither, a yellow one
        # only from the peak bucket. A packet without an entry comes in green.
        self.install(
            entries.two_rate(self.cell, entries.burst_of(4), entries.burst_of(7)),
            entries.pre_colour(self.cell, AF12, "come_in_yellow"),
            entries.pre_colour(self.cell, AF13, "come_in_red"),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
        )
        green, yellow, red, other = AF11, AF12, AF13, EF
        marks = [red] * 9 + [yellow] * 2 + [green, other, green, green, green, red, yellow]
        colours = [RED] * 9 + [YELLOW] * 2 + [GREEN] * 4 + [YELLOW, RED, RED]
        sent = [
            packets.udp(packets.FRAME_BYTES, id=number, tos=dscp << 2) for number, dscp in enumerate(marks)
        ]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)
        self.assert_colours(self.cell, ((packets.FRAME_BYTES, colour) for colour in colours))


class APreColourAppliesToItsPolicerOnly(WeirTest):
    needs = ("colour_aware",)

    def runTest(self) -> None:
        aware, blind = self.cell, self.cell + 1
        self.install(
            *(entries.two_rate(cell, entries.burst_of(4), entries.burst_of(7)) for cell in (aware, blind)),
            entries.pre_colour(aware, AF13, "come_in_red"),
            entries.verdict((aware, 0xFFFE), RED, "drop_packet"),
            entries.police_shared(aware, src=entries.ip(SRC_IP), dst_port=DST_PORT),
            entries.police_shared(blind, src=entries.ip(SRC_IP), dst_port=DST_PORT + 1),
        )
        sent = [packets.udp(packets.FRAME_BYTES, dst_port=DST_PORT + at, tos=AF13 << 2) for at in (0, 1)]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent[1:])
        self.assert_colours(aware, [(packets.FRAME_BYTES, RED)])
        self.assert_colours(blind, [(packets.FRAME_BYTES, GREEN)])


class TokensArriveAtTheConfiguredRate(WeirTest):
    needs = ("exact_buckets",)

    def runTest(self) -> None:
        # When a frame of L bytes is red, the bucket holds less than L. So between two red frames, T apart
        # by the switch's clock, the bytes that passed differ from rate × T by less than L, plus the tokens
        # of the microseconds that v1model's clock rounds away at both ends. The packets that passed are the
        # numbers missing from the reports. The bucket takes 5 s to fill: a sender that stalls for less
        # loses no token.
        rate_bytes_per_s, burst_bytes, span_ns = 20_000, 100_000, 500_000_000
        self.install(
            entries.token_bucket(self.cell, burst_bytes, rate_bytes_per_s),
            entries.verdict(self.cell, RED, "drop_packet"),
            entries.report_drops(self.cell, FIRST.session, FIRST.number),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
        )
        self.frames = packets.numbered(16, packets.FRAME_BYTES)
        self.traffic.exchange(1, packets.numbered(burst_bytes // 1400 + 1, 1400))
        found, first_took_ns = self._next_reds()
        first = last = found[-1]
        reds = 0
        while last.ingress_ns - first.ingress_ns < span_ns:
            found, last_took_ns = self._next_reds()
            last, reds = found[-1], reds + len(found)
            self.assertGreater(last.ingress_ns, first.ingress_ns, "the switch's clock does not advance")
        elapsed_ns = last.ingress_ns - first.ingress_ns
        passed_bytes = (last.packet_number - first.packet_number - reds) * packets.FRAME_BYTES
        arrived_bytes = rate_bytes_per_s * elapsed_ns / 1e9
        tolerance_bytes = packets.FRAME_BYTES + rate_bytes_per_s * 2e-6
        if not self.can.meters_at_ingress_time:
            # The meter's time is later than the report's by at most the time until the report arrived here.
            tolerance_bytes += rate_bytes_per_s * (first_took_ns + last_took_ns) / 1e9
        self.assertLess(
            abs(passed_bytes - arrived_bytes),
            tolerance_bytes,
            f"{passed_bytes} bytes passed in {elapsed_ns} ns at {rate_bytes_per_s} bytes/s",
        )
        print(f"{passed_bytes} of {arrived_bytes:.0f} bytes, tolerance {tolerance_bytes:.0f}", end=" ")

    def _next_reds(self) -> tuple[list[Report], int]:
        """Reports of the next red frames, and the time from sending to the reports, in ns."""
        for _ in range(1000):
            began_ns = time.monotonic_ns()
            reports = self.traffic.exchange(1, self.frames)[FIRST.port]
            took_ns = time.monotonic_ns() - began_ns
            if reports:
                return self.reports.decode(reports), took_ns
        raise AssertionError("no frame is red: the bucket fills faster than frames come")
