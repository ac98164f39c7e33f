# SPDX-License-Identifier: Apache-2.0
"""The translator, packet by packet: an inside host at port 1, the outside network at port 2."""

from __future__ import annotations

import socket

import ptf
from controller import Controller
from ptf.base_tests import BaseTest
from ptf.testutils import send_packet, simple_udp_packet, verify_no_other_packets, verify_packet

INSIDE, OUTSIDE = 1, 2
HOST, ADDRESS, SERVER = "10.0.0.5", "198.51.100.5", "203.0.113.9"


class NatTest(BaseTest):
    """The switch has the host's translation, both ways, unless `translated` says no."""

    translated = True

    def setUp(self) -> None:
        BaseTest.setUp(self)
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.controller = Controller()
        self.addCleanup(self.controller.close)
        if self.translated:
            host, address = socket.inet_aton(HOST), socket.inet_aton(ADDRESS)
            self.out = self.controller.insert("outbound", host, "translate_source", address)
            self.addCleanup(self.controller.delete, self.out)
            back = self.controller.insert("inbound", address, "translate_destination", host)
            self.addCleanup(self.controller.delete, back)


class AnInsideHostLeavesWithItsOutsideAddress(NatTest):
    def runTest(self) -> None:
        send_packet(self, INSIDE, simple_udp_packet(ip_src=HOST, ip_dst=SERVER))
        verify_packet(self, simple_udp_packet(ip_src=ADDRESS, ip_dst=SERVER), OUTSIDE)
        verify_no_other_packets(self)


class AnAnswerReachesTheInsideHost(NatTest):
    def runTest(self) -> None:
        send_packet(self, OUTSIDE, simple_udp_packet(ip_src=SERVER, ip_dst=ADDRESS))
        verify_packet(self, simple_udp_packet(ip_src=SERVER, ip_dst=HOST), INSIDE)
        verify_no_other_packets(self)


class PacketsAndBytesOfATranslationAreCounted(NatTest):
    def runTest(self) -> None:
        before = self.controller.counted(self.out)
        sizes = (64, 500, 1400)
        for size in sizes:
            send_packet(self, INSIDE, simple_udp_packet(pktlen=size, ip_src=HOST, ip_dst=SERVER))
            verify_packet(self, simple_udp_packet(pktlen=size, ip_src=ADDRESS, ip_dst=SERVER), OUTSIDE)
        packets, counted_bytes = self.controller.counted(self.out)
        self.assertEqual((packets - before[0], counted_bytes - before[1]), (len(sizes), sum(sizes)))


class AnUnknownHostIsShownToTheController(NatTest):
    translated = False

    def runTest(self) -> None:
        packet = simple_udp_packet(ip_src=HOST, ip_dst=SERVER)
        send_packet(self, INSIDE, packet)
        self.assertEqual(next(self.controller.packets()), (INSIDE, bytes(packet)))
        verify_no_other_packets(self)


class APacketOfTheControllerLeavesThroughItsPort(NatTest):
    def runTest(self) -> None:
        packet = simple_udp_packet(ip_src=SERVER, ip_dst=HOST)
        self.controller.send(INSIDE, bytes(packet))
        verify_packet(self, packet, INSIDE)
        verify_no_other_packets(self)
