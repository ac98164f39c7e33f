# SPDX-License-Identifier: Apache-2.0
"""The ports through which frames leave; they arrive unchanged."""

from socket import AF_INET6, inet_ntop, inet_pton

from scapy.layers.inet6 import ICMPv6ND_NA, ICMPv6ND_NS, ICMPv6NDOptDstLLAddr, ICMPv6NDOptSrcLLAddr
from scapy.utils6 import in6_getnsma, in6_getnsmac

from weir.ptftests import packets
from weir.ptftests.base import WeirTest
from weir.ptftests.packets import ARP, DST_IP, DST_IP6, SRC_IP, SRC_IP6, Ether, IPv6

BROADCAST = "ff:ff:ff:ff:ff:ff"
UNKNOWN_MAC = "02:00:00:00:00:77"


class AFrameToAKnownStationLeavesThroughItsPortOnly(WeirTest):
    def runTest(self) -> None:
        frame = packets.udp()
        self.assertEqual(self.traffic.exchange(1, [frame]), {1: [], 2: [frame], 3: [], 4: []})


class AFrameToAnUnknownStationIsFloodedButNotBack(WeirTest):
    def runTest(self) -> None:
        frame = packets.sized(
            Ether(dst=UNKNOWN_MAC, src=packets.host_mac(1)) / packets.IP(src=SRC_IP, dst=DST_IP)
        )
        self.assertEqual(self.traffic.exchange(1, [frame]), {1: [], 2: [frame], 3: [frame], 4: [frame]})


class AnArpRequestIsFloodedAndItsReplyReachesTheRequester(WeirTest):
    def runTest(self) -> None:
        asker, answerer = packets.host_mac(1), packets.host_mac(2)
        request = packets.sized(
            Ether(src=asker, dst=BROADCAST) / ARP(op="who-has", hwsrc=asker, psrc=SRC_IP, pdst=DST_IP), 60
        )
        reply = packets.sized(
            Ether(src=answerer, dst=asker)
            / ARP(op="is-at", hwsrc=answerer, psrc=DST_IP, hwdst=asker, pdst=SRC_IP),
            60,
        )
        asked = self.traffic.exchange(1, [request])
        self.assertEqual(asked, {1: [], 2: [request], 3: [request], 4: [request]})
        self.assertEqual(self.traffic.exchange(2, [reply]), {1: [reply], 2: [], 3: [], 4: []})


class ANeighbourSolicitationIsFloodedAndItsAnswerReachesTheRequester(WeirTest):
    def runTest(self) -> None:
        asker, answerer = packets.host_mac(1), packets.host_mac(2)
        group = in6_getnsma(inet_pton(AF_INET6, DST_IP6))
        solicitation = bytes(
            Ether(src=asker, dst=in6_getnsmac(group))
            / IPv6(src=SRC_IP6, dst=inet_ntop(AF_INET6, group), hlim=255)
            / ICMPv6ND_NS(tgt=DST_IP6)
            / ICMPv6NDOptSrcLLAddr(lladdr=asker)
        )
        advertisement = bytes(
            Ether(src=answerer, dst=asker)
            / IPv6(src=DST_IP6, dst=SRC_IP6, hlim=255)
            / ICMPv6ND_NA(tgt=DST_IP6, R=0, S=1)
            / ICMPv6NDOptDstLLAddr(lladdr=answerer)
        )
        asked = self.traffic.exchange(1, [solicitation])
        self.assertEqual(asked, {1: [], 2: [solicitation], 3: [solicitation], 4: [solicitation]})
        answered = self.traffic.exchange(2, [advertisement])
        self.assertEqual(answered, {1: [advertisement], 2: [], 3: [], 4: []})


class FramesThatAreNotIpAreForwardedUntouched(WeirTest):
    def runTest(self) -> None:
        # LLC (802.3 length), slow protocols, LLDP, MPLS, PPPoE session, 802.1ad, no EtherType in use.
        types = (0x0026, 0x8809, 0x88CC, 0x8847, 0x8864, 0x88A8, 0xFFFF)
        sent = [packets.sized(packets.ethernet() / packets.Raw(b"\x45")) for _ in types]
        sent = [
            frame[:12] + kind.to_bytes(2, "big") + frame[14:] for frame, kind in zip(sent, types, strict=True)
        ]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)


class IpProtocolsBesideTcpAndUdpAreForwardedUntouched(WeirTest):
    def runTest(self) -> None:
        protocols = (1, 2, 4, 41, 47, 50, 51, 89, 132, 255)
        headers = [packets.IP(src=SRC_IP, dst=DST_IP, proto=protocol) for protocol in protocols]
        headers += [IPv6(src=SRC_IP6, dst=DST_IP6, nh=protocol) for protocol in (41, 50, 58, 59, 132)]
        sent = [packets.sized(packets.ethernet() / header) for header in headers]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)


class FramesOfEveryLengthArriveWhole(WeirTest):
    def runTest(self) -> None:
        sent = [
            packets.udp(length, id=length) for length in (60, 61, 64, 65, 127, 128, 129, 1000, 1513, 1514)
        ]
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent)
