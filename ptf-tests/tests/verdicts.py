# SPDX-License-Identifier: Apache-2.0
"""Verdicts on packets of a colour: pass, drop, remark DSCP, mark ECN CE."""

from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import COLOURS, GREEN, IPV6, RED, YELLOW
from weir.ptftests.expect import REASON_NOT_ECT, internet_checksum
from weir.ptftests.packets import DST_IP, DST_IP6, SRC_IP, SRC_IP6, TCP, UDP, Dot1Q, IPv6
from weir.ptftests.reports import FIRST

NOT_ECT, ECT_1, ECT_0, CE = range(4)
IPV4_AT = 14


class Green(WeirTest):
    """A policer of IPv4 and IPv6 whose packets are all green, so that one verdict applies to them."""

    def setUp(self) -> None:
        super().setUp()
        self.install(
            entries.token_bucket(self.cell, 1_000_000),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
            entries.police_shared(self.cell, table=IPV6, src=entries.ip(SRC_IP6)),
        )

    def verdict(self, action: str, **args: int) -> None:
        """Set the verdict on the test's packets."""
        self.install(entries.verdict(self.cell, GREEN, action, **args))


def ipv6(traffic_class: int) -> bytes:
    """TCP over IPv6 with this DSCP and ECN."""
    header = IPv6(src=SRC_IP6, dst=DST_IP6, tc=traffic_class, fl=0xABCDE)
    return packets.sized(packets.ethernet() / header / TCP(), packets.FRAME_BYTES)


class EachColourHasItsOwnVerdict(WeirTest):
    def runTest(self) -> None:
        self.install(
            entries.two_rate(self.cell, entries.burst_of(3), entries.burst_of(6)),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
            entries.verdict(self.cell, GREEN, "pass_packet"),
            entries.verdict(self.cell, YELLOW, "remark_dscp", dscp=10),
            entries.verdict(self.cell, RED, "drop_packet"),
        )
        sent = packets.numbered(9)
        remarked = packets.numbered(9, tos=10 << 2)
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent[:3] + remarked[3:6])


class APacketWithoutAVerdictPasses(WeirTest):
    def runTest(self) -> None:
        self.install(
            entries.two_rate(self.cell, entries.burst_of(1), entries.burst_of(2)),
            entries.police_shared(self.cell, src=entries.ip(SRC_IP)),
        )
        sent = packets.numbered(5)
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)
        self.assert_colours(
            self.cell, [(packets.FRAME_BYTES, colour) for colour in (GREEN, YELLOW, RED, RED, RED)]
        )


class OneVerdictCanHoldForARangeOfCells(WeirTest):
    def runTest(self) -> None:
        mask = 0xFFFF ^ 7
        self.install(entries.verdict((self.cell, mask), GREEN, "drop_packet"))
        for number in range(9):
            cell = self.cell + number
            self.install(
                entries.token_bucket(cell, 1000),
                entries.police_shared(cell, src_port=7000 + number),
            )
        sent = [packets.udp(src_port=7000 + number) for number in range(9)]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent[8:])


class RemarkingWritesTheDscpAndTheRightChecksum(Green):
    def runTest(self) -> None:
        self.verdict("remark_dscp", dscp=46)
        # Every DSCP and ECN of an incoming packet; the identification varies the checksum.
        sent = [packets.udp(tos=tos, id=tos * 257) for tos in range(256)]
        expected = [packets.udp(tos=46 << 2 | tos & 3, id=tos * 257) for tos in range(256)]
        self.assertEqual(self.traffic.exchange(1, sent)[2], expected)


class RemarkingKeepsAChecksumRightThatIsNearZero(Green):
    def runTest(self) -> None:
        # One's complement has two zeros: headers whose checksum is just above or below 0, before or after
        # remarking.
        self.verdict("remark_dscp", dscp=0)
        sent, expected = [], []
        for tos in (0, 4, 0x80, 0xFC):
            base = bytearray(packets.udp(tos=tos, id=0))
            without = internet_checksum(_ipv4_without_checksum(base))
            for wanted in (0, 1, 0xFFFE, 0x00FF, 0x0100):
                identification = (without - wanted) % 0xFFFF
                frame = packets.udp(tos=tos, id=identification)
                sent.append(frame)
                expected.append(packets.udp(tos=tos & 3, id=identification))
        self.assertEqual(self.traffic.exchange(1, sent)[2], expected)


def _ipv4_without_checksum(frame: bytes | bytearray) -> bytes:
    header = bytearray(frame[IPV4_AT : IPV4_AT + 20])
    header[10:12] = b"\0\0"
    return bytes(header)


class RemarkingLeavesAWrongChecksumWrong(Green):
    def runTest(self) -> None:
        self.verdict("remark_dscp", dscp=46)
        wrong = bytearray(packets.udp())
        wrong[IPV4_AT + 10] ^= 0x40
        (frame,) = self.traffic.exchange(1, [bytes(wrong)])[2]
        right = packets.udp(tos=46 << 2)
        self.assertEqual(frame[:24] + frame[26:], right[:24] + right[26:])
        self.assertNotEqual(frame[24:26], right[24:26])


class RemarkingWritesTheDscpOfIpv6(Green):
    def runTest(self) -> None:
        self.verdict("remark_dscp", dscp=46)
        sent = [ipv6(traffic_class) for traffic_class in range(256)]
        expected = [ipv6(46 << 2 | traffic_class & 3) for traffic_class in range(256)]
        self.assertEqual(self.traffic.exchange(1, sent)[2], expected)


class RemarkingWorksBelowAVlanTagAndKeepsTheTag(Green):
    def runTest(self) -> None:
        self.verdict("remark_dscp", dscp=18)

        def tagged(tos: int) -> bytes:
            header = packets.IP(src=SRC_IP, dst=DST_IP, tos=tos)
            return packets.sized(
                packets.ethernet() / Dot1Q(prio=5, vlan=123) / header / UDP(), packets.FRAME_BYTES
            )

        self.assertEqual(self.traffic.exchange(1, [tagged(1)])[2], [tagged(18 << 2 | 1)])


class MarkingWritesCeOnEcnCapablePackets(Green):
    def runTest(self) -> None:
        self.verdict("mark_ce", drop_not_ect=1)
        sent = [packets.udp(tos=20 << 2 | ecn) for ecn in (ECT_0, ECT_1, CE)]
        sent += [ipv6(20 << 2 | ecn) for ecn in (ECT_0, ECT_1, CE)]
        expected = [packets.udp(tos=20 << 2 | CE)] * 3 + [ipv6(20 << 2 | CE)] * 3
        self.assertEqual(self.traffic.exchange(1, sent)[2], expected)


class ANotEctPacketPassesUnmarkedIfTheVerdictSaysSo(Green):
    def runTest(self) -> None:
        self.verdict("mark_ce", drop_not_ect=0)
        sent = [packets.udp(tos=20 << 2 | NOT_ECT), ipv6(20 << 2 | NOT_ECT)]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)


class ANotEctPacketIsDroppedForThatReasonIfTheVerdictSaysSo(Green):
    def runTest(self) -> None:
        self.verdict("mark_ce", drop_not_ect=1)
        self.install(entries.report_drops(self.cell, FIRST.session, FIRST.number))
        before = self.drops(REASON_NOT_ECT)
        sent = [packets.udp(tos=20 << 2 | NOT_ECT), ipv6(20 << 2 | NOT_ECT)]
        left = self.traffic.exchange(1, sent)
        self.assertEqual(left[2], [])
        found = self.reports.decode(left[FIRST.port])
        self.assertEqual([report.inner for report in found], sent)
        self.assertEqual([report.drop_reason for report in found], [REASON_NOT_ECT] * 2)
        self.assertEqual([report.colour for report in found], [GREEN] * 2)
        self.assertEqual(self.drops(REASON_NOT_ECT) - before, 2)


class AVerdictHoldsForItsColourOnly(Green):
    def runTest(self) -> None:
        for colour in COLOURS:
            if colour != GREEN:
                self.install(entries.verdict(self.cell, colour, "drop_packet"))
        sent = packets.numbered(5)
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)
