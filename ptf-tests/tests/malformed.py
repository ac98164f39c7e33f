# SPDX-License-Identifier: Apache-2.0
"""Malformed packets: dropped before they are forwarded or metered, counted by reason, reported as cell 0."""

from collections.abc import Iterable

from scapy.layers.inet6 import IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop

from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import IPV4, IPV6
from weir.ptftests.expect import REASONS
from weir.ptftests.packets import DST_IP, DST_IP6, IP, SRC_IP, SRC_IP6, TCP, UDP, Dot1Q, IPv6, Raw
from weir.ptftests.reports import FIRST, INNER_BYTES

ETHERNET_BYTES, VLAN_BYTES, IPV4_BYTES, IPV6_BYTES = 14, 4, 20, 40
NO_CELL = 0


class Malformed(WeirTest):
    """Polices and reports all packets, so that a malformed frame that is not dropped is noticed."""

    needs: tuple[str, ...] = ("short_frames",)

    def setUp(self) -> None:
        super().setUp()
        self.install(
            entries.token_bucket(self.cell, 1_000_000),
            entries.police_shared(self.cell, table=IPV4),
            entries.police_shared(self.cell, table=IPV6),
            entries.report_drops((NO_CELL, 0xFFFF), FIRST.session, FIRST.number),
        )

    def assert_refused(self, reason: str, frames: Iterable[bytes]) -> None:
        """All frames are dropped for the reason, reported with their first bytes, and meet no policer."""
        sent = list(frames)
        number = REASONS[reason]
        before = self.drops(number)
        left = self.traffic.exchange(1, sent)
        self.assertEqual(left[2], [], "forwarded")
        self.assertEqual(self.drops(number) - before, len(sent), f"counted as {reason}")
        found = self.reports.decode(left[FIRST.port])
        self.assertEqual({(report.policer, report.drop_reason) for report in found}, {(NO_CELL, number)})
        self.assertEqual([report.inner for report in found], [frame[:INNER_BYTES] for frame in sent])
        self.assertEqual(self.control.counts("met_counter", [self.cell])[self.cell].packets, 0)


def ipv4(**fields: object) -> bytearray:
    """A correct UDP frame over IPv4, to be corrupted."""
    header = IP(src=SRC_IP, dst=DST_IP, **fields)
    return bytearray(packets.sized(packets.ethernet() / header / UDP(sport=1, dport=2), 120))


def ipv6(*extensions: packets.Packet) -> bytearray:
    """A correct UDP frame over IPv6, to be corrupted."""
    packet = packets.ethernet() / IPv6(src=SRC_IP6, dst=DST_IP6)
    for extension in extensions:
        packet /= extension
    return bytearray(packets.sized(packet / UDP(sport=1, dport=2), 160))


def with_number(frame: bytearray, at: int, value: int) -> bytes:
    """The frame with a 16-bit number replaced at an offset."""
    return bytes(frame[:at]) + value.to_bytes(2, "big") + bytes(frame[at + 2 :])


class AFrameThatEndsInItsEthernetHeader(Malformed):
    needs = ("short_frames", "names_cut_header", "cut_link_headers")

    def runTest(self) -> None:
        frame = bytes(ipv4())
        self.assert_refused("cut Ethernet", [frame[:length] for length in range(1, ETHERNET_BYTES)])


class AFrameThatEndsInItsVlanTag(Malformed):
    needs = ("short_frames", "names_cut_header", "cut_link_headers")

    def runTest(self) -> None:
        frame = bytes(packets.ethernet() / Dot1Q(vlan=5) / IP(src=SRC_IP, dst=DST_IP))
        cut = [frame[: ETHERNET_BYTES + length] for length in range(VLAN_BYTES)]
        self.assert_refused("cut VLAN", cut)


class AFrameThatEndsInItsIpv4Header(Malformed):
    needs = ("short_frames", "names_cut_header")

    def runTest(self) -> None:
        frame = bytes(ipv4())
        self.assert_refused("cut IPv4", [frame[: ETHERNET_BYTES + length] for length in range(IPV4_BYTES)])


class AFrameThatEndsInItsIpv4Options(Malformed):
    needs = ("short_frames", "names_cut_header")

    def runTest(self) -> None:
        frame = ipv4()
        cut = []
        # The header length is up to 15 words, so the options reach beyond the frame.
        for words in range(6, 16):
            frame[ETHERNET_BYTES] = 0x40 | words
            shortest, whole = ETHERNET_BYTES + IPV4_BYTES, ETHERNET_BYTES + 4 * words
            cut += [bytes(frame[:length]) for length in {shortest, shortest + 1, whole - 4, whole - 1}]
        self.assert_refused("cut IPv4 options", cut)


class AFrameThatEndsInItsIpv6Header(Malformed):
    needs = ("short_frames", "names_cut_header")

    def runTest(self) -> None:
        frame = bytes(ipv6())
        self.assert_refused("cut IPv6", [frame[: ETHERNET_BYTES + length] for length in range(IPV6_BYTES)])


class AFrameThatEndsInAnIpv6ExtensionHeader(Malformed):
    needs = ("short_frames", "names_cut_header")

    def runTest(self) -> None:
        begins = ETHERNET_BYTES + IPV6_BYTES
        for header in (IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt(), IPv6ExtHdrFragment()):
            frame = bytes(ipv6(header))
            self.assert_refused("cut IPv6 extension", [frame[: begins + length] for length in range(8)])


class AFrameThatEndsInItsPorts(Malformed):
    needs = ("short_frames", "names_cut_header")

    def runTest(self) -> None:
        plain, begins = bytes(ipv4()), ETHERNET_BYTES + IPV4_BYTES
        optional = bytes(ipv4(options=[packets.option(b"\x01")] * 4))
        tagged = packets.ethernet() / Dot1Q(vlan=5) / IP(src=SRC_IP, dst=DST_IP) / TCP() / Raw(bytes(40))
        for length in range(4):
            cut = [plain[: begins + length], optional[: begins + 4 + length]]
            cut.append(bytes(tagged)[: begins + VLAN_BYTES + length])
            cut.append(bytes(ipv6())[: ETHERNET_BYTES + IPV6_BYTES + length])
            self.assert_refused("cut transport", cut)


class AnIpv4PacketOfAnotherVersion(Malformed):
    def runTest(self) -> None:
        frame = ipv4()
        frames = []
        for version in set(range(16)) - {4}:
            frame[ETHERNET_BYTES] = version << 4 | 5
            frames.append(bytes(frame))
        self.assert_refused("IPv4 version", frames)


class AnIpv4HeaderOfFewerThanFiveWords(Malformed):
    def runTest(self) -> None:
        frame = ipv4()
        frames = []
        for words in range(5):
            frame[ETHERNET_BYTES] = 0x40 | words
            frames.append(bytes(frame))
        self.assert_refused("IPv4 header length", frames)


class AnIpv4LengthBeyondTheFrame(Malformed):
    needs = ("short_frames", "frame_length")

    def runTest(self) -> None:
        frame, has = ipv4(), 120 - ETHERNET_BYTES
        lengths = (has + 1, has + 2, 1500, 0x7FFF, 0xFFFF)
        self.assert_refused(
            "IPv4 length", [with_number(frame, ETHERNET_BYTES + 2, value) for value in lengths]
        )


class AnIpv4LengthThatEndsInTheHeaders(Malformed):
    needs = ("short_frames", "overlaps_behind_options")

    def runTest(self) -> None:
        plain, optional = ipv4(), ipv4(options=[packets.option(b"\x01")] * 40)
        frames = [with_number(plain, ETHERNET_BYTES + 2, value) for value in (0, 1, 19, 20, 27)]
        frames += [with_number(optional, ETHERNET_BYTES + 2, value) for value in (20, 59, 60, 67)]
        self.assert_refused("IPv4 overlap", frames)


class AnIpv6PacketOfAnotherVersion(Malformed):
    def runTest(self) -> None:
        frame = ipv6()
        frames = []
        for version in set(range(16)) - {6}:
            frame[ETHERNET_BYTES] = version << 4
            frames.append(bytes(frame))
        self.assert_refused("IPv6 version", frames)


class AnIpv6LengthBeyondTheFrame(Malformed):
    needs = ("short_frames", "frame_length")

    def runTest(self) -> None:
        frame, has = ipv6(), 160 - ETHERNET_BYTES - IPV6_BYTES
        lengths = (has + 1, has + 2, 1500, 0xFFFF)
        self.assert_refused(
            "IPv6 length", [with_number(frame, ETHERNET_BYTES + 4, value) for value in lengths]
        )


class AnIpv6LengthThatEndsInTheHeaders(Malformed):
    needs = ("short_frames", "overlaps_behind_options")

    def runTest(self) -> None:
        frames = [with_number(ipv6(), ETHERNET_BYTES + 4, value) for value in (0, 1, 7)]
        extended = ipv6(IPv6ExtHdrDestOpt())
        frames += [with_number(extended, ETHERNET_BYTES + 4, value) for value in (0, 7, 8, 15)]
        self.assert_refused("IPv6 overlap", frames)


class APaddedPacketIsNotMalformed(WeirTest):
    def runTest(self) -> None:
        # Ethernet pads short frames, so a packet may end before its frame.
        self.install(
            entries.police_shared(self.cell, table=IPV4), entries.police_shared(self.cell, table=IPV6)
        )
        sent = [with_number(ipv4(), ETHERNET_BYTES + 2, 28), with_number(ipv6(), ETHERNET_BYTES + 4, 8)]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)
        self.assertEqual(self.control.counts("met_counter", [self.cell])[self.cell].packets, 2)


class AfterMalformedPacketsGoodOnesPass(Malformed):
    def runTest(self) -> None:
        self.assert_refused("IPv4 version", [bytes(ipv4()[:14]) + b"\x55" + bytes(ipv4()[15:])] * 50)
        sent = packets.numbered(20)
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)
