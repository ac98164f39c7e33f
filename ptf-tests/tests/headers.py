# SPDX-License-Identifier: Apache-2.0
"""The fields that the classifier matches, for each combination of headers. All frames arrive unchanged."""

from collections.abc import Sequence
from typing import Any

from scapy.layers.inet6 import (
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)

from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import IPV4, IPV6
from weir.ptftests.packets import (
    DST_IP,
    DST_IP6,
    DST_PORT,
    IP,
    SRC_IP,
    SRC_IP6,
    SRC_PORT,
    TCP,
    UDP,
    Dot1Q,
    IPv6,
    Packet,
)

TCP_NUMBER, UDP_NUMBER, ICMP_NUMBER = 6, 17, 1
PORTS = {"src_port": SRC_PORT, "dst_port": DST_PORT}
NO_PORTS = {"has_ports": 0}
IPV4_FLOW = {"src": entries.ip(SRC_IP), "dst": entries.ip(DST_IP)}
IPV6_FLOW = {"src": entries.ip(SRC_IP6), "dst": entries.ip(DST_IP6)}


class ClassifierTest(WeirTest):
    """Counts which frames match an entry of the classifier."""

    def assert_matched(
        self, frames: Sequence[bytes], keys: dict[str, Any], table: str = IPV4, port: int = 1
    ) -> None:
        """All frames match an entry with these keys and no other entry, and all arrive unchanged."""
        matched, rest = self.cell, self.cell + 1
        self.install(
            entries.police_shared(matched, table=table, priority=entries.PRIORITY + 1, **keys),
            entries.police_shared(rest, table=IPV4),
            entries.police_shared(rest, table=IPV6),
        )
        self.assertEqual(self.traffic.exchange(port, frames)[2], list(frames))
        met = self.control.counts("met_counter", [matched, rest])
        self.assertEqual((met[matched].packets, met[rest].packets), (len(frames), 0))


def ipv4(*rest: Packet, **fields: object) -> bytes:
    """IPv4 from station 1 to 2; `rest` follows its header."""
    packet = packets.ethernet() / IP(src=SRC_IP, dst=DST_IP, **fields)
    for part in rest:
        packet /= part
    return packets.sized(packet, 120)


def ipv6(*rest: Packet, **fields: object) -> bytes:
    """IPv6 from station 1 to 2; `rest` follows its header."""
    packet = packets.ethernet() / IPv6(src=SRC_IP6, dst=DST_IP6, **fields)
    for part in rest:
        packet /= part
    return packets.sized(packet, 200)


def tcp() -> Packet:
    """A TCP header with the ports of the tests."""
    return TCP(sport=SRC_PORT, dport=DST_PORT)


def udp() -> Packet:
    """A UDP header with the ports of the tests."""
    return UDP(sport=SRC_PORT, dport=DST_PORT)


class TcpAndUdpAreMatchedByAddressesProtocolAndPorts(ClassifierTest):
    def runTest(self) -> None:
        self.assert_matched([ipv4(tcp())] * 2, {**IPV4_FLOW, **PORTS, "protocol": TCP_NUMBER})


class UdpIsMatchedByItsPorts(ClassifierTest):
    def runTest(self) -> None:
        self.assert_matched([ipv4(udp())] * 2, {**IPV4_FLOW, **PORTS, "protocol": UDP_NUMBER})


class OtherProtocolsHaveNoPorts(ClassifierTest):
    def runTest(self) -> None:
        # The bytes in the position of the ports are the ports of the tests.
        ports = packets.Raw(SRC_PORT.to_bytes(2, "big") + DST_PORT.to_bytes(2, "big"))
        frames = [ipv4(ports, proto=number) for number in (ICMP_NUMBER, 2, 47, 50, 132, 255)]
        self.assert_matched(frames, {**IPV4_FLOW, **NO_PORTS, "src_port": 0, "dst_port": 0})


class DscpIsMatchedWhateverTheEcn(ClassifierTest):
    def runTest(self) -> None:
        self.assert_matched([ipv4(tcp(), tos=46 << 2 | ecn) for ecn in range(4)], {"dscp": 46})


class TheIngressPortIsMatched(ClassifierTest):
    def runTest(self) -> None:
        self.assert_matched([ipv4(tcp())] * 2, {"ingress_port": self.p4_port(1)})


class MasksMatchPrefixesOfAddresses(ClassifierTest):
    def runTest(self) -> None:
        prefix = {"src": (entries.ip("10.0.0.0"), 0xFFFFFF00), "dst": (entries.ip("10.0.0.0"), 0xFF000000)}
        self.assert_matched([ipv4(tcp())] * 2, {**prefix})


class TheHighestPriorityWins(WeirTest):
    def runTest(self) -> None:
        choices: list[dict[str, Any]] = [{}, {"protocol": UDP_NUMBER}, {"dscp": 0}]
        for number, keys in enumerate(choices):
            self.install(entries.police_shared(self.cell + number, priority=10 * (number + 1), **keys))
        self.traffic.exchange(1, packets.numbered(4))
        met = self.control.counts("met_counter", [self.cell + number for number in range(3)])
        self.assertEqual([count.packets for count in met.values()], [0, 0, 4])


class Ipv4IsMatchedBelowAVlanTag(ClassifierTest):
    def runTest(self) -> None:
        tags = [
            Dot1Q(prio=prio, id=dei, vlan=vid) for prio, dei, vid in ((0, 0, 0), (7, 1, 4095), (3, 0, 100))
        ]
        header = IP(src=SRC_IP, dst=DST_IP)
        frames = [packets.sized(packets.ethernet() / tag / header / tcp(), 100) for tag in tags]
        self.assert_matched(frames, {**IPV4_FLOW, **PORTS, "protocol": TCP_NUMBER})


class Ipv6IsMatchedBelowAVlanTag(ClassifierTest):
    def runTest(self) -> None:
        header = IPv6(src=SRC_IP6, dst=DST_IP6)
        frame = packets.sized(packets.ethernet() / Dot1Q(vlan=100) / header / udp(), 100)
        self.assert_matched([frame] * 2, {**IPV6_FLOW, **PORTS, "protocol": UDP_NUMBER}, IPV6)


class Ipv4OptionsOfEveryLengthDoNotHidePorts(ClassifierTest):
    def runTest(self) -> None:
        # No-operation (RFC 791), one byte each, 1 to 10 words of them.
        frames = [ipv4(tcp(), options=[packets.option(b"\x01")] * (4 * words)) for words in range(1, 11)]
        self.assertEqual({frame[14] & 0xF for frame in frames}, set(range(6, 16)))
        self.assert_matched(frames, {**IPV4_FLOW, **PORTS, "protocol": TCP_NUMBER})


class AFirstFragmentIsMatchedByItsPorts(ClassifierTest):
    def runTest(self) -> None:
        self.assert_matched([ipv4(udp(), flags="MF")] * 2, {**IPV4_FLOW, **PORTS, "protocol": UDP_NUMBER})


class LaterFragmentsAreMatchedByAddressesAndHaveNoPorts(ClassifierTest):
    def runTest(self) -> None:
        # The bytes in the position of the ports are payload.
        frames = [ipv4(tcp(), frag=offset, flags="MF") for offset in (1, 185, 0x1FFF)]
        frames += [ipv4(udp(), frag=185), ipv4(udp(), frag=1, options=[packets.option(b"\x01")] * 4)]
        self.assert_matched(frames, {**IPV4_FLOW, **NO_PORTS, "src_port": 0, "dst_port": 0})


class Ipv6IsMatchedByAddressesProtocolPortsAndDscp(ClassifierTest):
    def runTest(self) -> None:
        keys = {**IPV6_FLOW, **PORTS, "protocol": UDP_NUMBER, "dscp": 46, "ingress_port": self.p4_port(1)}
        self.assert_matched([ipv6(udp(), tc=46 << 2 | ecn, fl=0xFFFFF) for ecn in range(4)], keys, IPV6)


class AnIpv6ExtensionHeaderDoesNotHidePorts(ClassifierTest):
    needs = ("long_extensions",)

    def runTest(self) -> None:
        headers = (
            IPv6ExtHdrHopByHop(),
            IPv6ExtHdrDestOpt(),
            IPv6ExtHdrRouting(addresses=["2001:db8::3", "2001:db8::4"], segleft=0),
            IPv6ExtHdrFragment(m=1),
        )
        frames = [ipv6(header, tcp()) for header in headers]
        self.assert_matched(frames, {**IPV6_FLOW, **PORTS, "protocol": TCP_NUMBER}, IPV6)


class FourIpv6ExtensionHeadersAreFollowed(ClassifierTest):
    needs = ("long_extensions",)

    def runTest(self) -> None:
        chain = (IPv6ExtHdrHopByHop(), IPv6ExtHdrDestOpt(), IPv6ExtHdrFragment(m=1), IPv6ExtHdrDestOpt())
        self.assert_matched([ipv6(*chain, udp())] * 2, {**IPV6_FLOW, **PORTS, "protocol": UDP_NUMBER}, IPV6)


class ALongerChainOfIpv6ExtensionHeadersHasNoPorts(ClassifierTest):
    def runTest(self) -> None:
        chain = (IPv6ExtHdrHopByHop(), *(IPv6ExtHdrDestOpt() for _ in range(4)))
        self.assert_matched([ipv6(*chain, udp())] * 2, {**IPV6_FLOW, **NO_PORTS}, IPV6)


class ALaterIpv6FragmentHasNoPorts(ClassifierTest):
    def runTest(self) -> None:
        frames = [ipv6(IPv6ExtHdrFragment(offset=offset, m=1), udp()) for offset in (1, 100, 0x1FFF)]
        self.assert_matched(frames, {**IPV6_FLOW, **NO_PORTS}, IPV6)
