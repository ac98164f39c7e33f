# SPDX-License-Identifier: Apache-2.0
"""Reports are, byte for byte, the hex vectors of docs/spec/telemetry-report.md.

The tests set a vector's fields: packet and sequence number through the pipeline's registers, node and
addresses through the collector's entry, colour and policer through the meter. Two fields cannot be set and
are copied from the report into the vector: ingress_ns, which drops.IngressTimesAreThoseOfTheSwitchsClock
checks, and hw_id, which is 0 in a switch with one pipeline.
"""

from dataclasses import replace

from weir.ptftests import entries, expect
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import RED, YELLOW
from weir.ptftests.expect import Endpoint, Vector, payload_of
from weir.ptftests.packets import host_mac, mac_number
from weir.ptftests.reports import FIRST, Collector

FLAGS, CONGESTED = 11, 0x40
QUEUE, INGRESS_NS, EGRESS_NS, DROP_QUEUE = slice(20, 24), slice(24, 32), slice(32, 40), slice(40, 41)


class VectorTest(WeirTest):
    """Provoke the drop that a vector describes."""

    needs: tuple[str, ...] = ("writes_registers", "short_frames")

    def provoke(self, vector: Vector, sender: int, collector: Collector) -> bytes:
        """The report's frame. The packet enters at port `sender`; zeros follow its inner bytes."""
        cell, colour = int(vector.values["policer"]), int(vector.values["colour"])
        wire_length, number = int(vector.values["wire_length"]), int(vector.values["packet_number"])
        self.device.write_register("packet_number", cell, number - 1)
        self.device.write_register("sequence", collector.number, int(vector.values["sequence"]))
        if self.can.own_packet_counts:
            # Yellow: only the peak bucket has the bytes. Red: neither has.
            self.install(entries.two_rate(cell, 1, wire_length if colour == YELLOW else 1))
        else:
            self.install(
                entries.two_rate(cell, wire_length, wire_length),
                entries.comes_in(cell, "yellow" if colour == YELLOW else "red"),
            )
        self.install(
            entries.verdict(cell, colour, "drop_packet"),
            entries.police_shared(cell, src=entries.ip(vector.values["src"])),
            entries.report_drops(cell, collector.session, collector.number),
        )
        inner = vector.payload[expect.HEADERS_BYTES :]
        (frame,) = self.traffic.exchange(sender, [inner.ljust(wire_length, b"\0")])[collector.port]
        return frame

    def assert_report(self, payload: bytes, vector: Vector) -> None:
        """The payload is the vector, except for the time and the subsystem."""
        found = expect.decode(payload)
        wanted = bytearray(vector.payload)
        wanted[INGRESS_NS] = payload[INGRESS_NS]
        hw_id_at = 22
        group = int.from_bytes(wanted[:4], "big") & ~(0x3F << hw_id_at) | found.hw_id << hw_id_at
        wanted[:4] = group.to_bytes(4, "big")
        self.assertEqual(payload.hex(), wanted.hex())
        self.assertEqual(found.hw_id, 0)
        self.assertGreater(found.ingress_ns, 0)


class ARedTcpSegmentCutTo128BytesIsTheVector(VectorTest):
    def runTest(self) -> None:
        vector = expect.vectors()["red-tcp-1514-cut-to-128"]
        collector = replace(FIRST, number=6, session=13, inner_bytes=128)
        self.install(*self.reports.entities([collector]))
        frame = self.provoke(vector, 2, collector)
        self.assertEqual(expect.decode(payload_of(frame, FIRST.switch, FIRST.here)).colour, RED)
        self.assert_report(payload_of(frame, FIRST.switch, FIRST.here), vector)


class AYellowAckRoundedUpIsTheVectorWithItsOuterHeaders(VectorTest):
    needs = ("writes_registers", "short_frames", "cells_65536")

    def runTest(self) -> None:
        vector = expect.vectors()["yellow-ack-66-rounded-up"]
        # Addresses of the specification's frame.
        collector = Collector(
            number=5,
            port=FIRST.port,
            session=FIRST.session,
            here=Endpoint("02:00:00:00:00:c0", "10.0.0.9", 32766),
            switch=Endpoint("02:00:00:00:00:ee", "10.0.0.254", 32766),
            node_id=int(vector.values["node_id"]),
        )
        self.install(self.reports.collector(collector))
        frame = self.provoke(vector, 1, collector)
        wanted = expect.frames()["frame-of-the-ack"]
        self.assertEqual(frame[: expect.OUTER_BYTES].hex(), wanted[: expect.OUTER_BYTES].hex())
        self.assert_report(frame[expect.OUTER_BYTES :], vector)


class AnEnqueuedAckIsTheVectorExceptForItsQueue(VectorTest):
    needs = ("writes_registers", "short_frames")

    def runTest(self) -> None:
        # The fields of the queue (number, occupancy, congestion) and both times are copied from the switch's
        # report; enqueues and queue_drops test them. All other bytes must be the vector's.
        vector = expect.vectors()["enqueue-green-through-queue-2"]
        cell, number = int(vector.values["policer"]), int(vector.values["packet_number"])
        self.device.write_register("packet_number", cell, number - 1)
        self.device.write_register("sequence", FIRST.number, int(vector.values["sequence"]))
        # Only this test watches this flow, so its count of packets to the next report is still 0.
        self.install(
            entries.token_bucket(cell, 10_000),
            entries.police_shared(cell, watched=True, src=entries.ip(vector.values["src"])),
            entries.report_enqueued(cell, FIRST.session, FIRST.number, every=1),
        )
        inner = vector.payload[expect.HEADERS_BYTES :]
        (frame,) = self.traffic.exchange(1, [inner], rounds=2)[FIRST.port]
        payload = payload_of(frame, FIRST.switch, FIRST.here)
        wanted = bytearray(vector.payload)
        for field in (QUEUE, INGRESS_NS, EGRESS_NS, DROP_QUEUE):
            wanted[field] = payload[field]
        wanted[FLAGS] = wanted[FLAGS] & ~CONGESTED | payload[FLAGS] & CONGESTED
        self.assertEqual(payload.hex(), wanted.hex())


class AReportOfAGapIsTheVectorExceptForItsTimes(VectorTest):
    needs = ("writes_registers", "short_frames", "counts_gaps")

    def runTest(self) -> None:
        # The two counts of the port's packets, before and after its queue, are set to differ by five losses.
        # The vector's packet is for station 1.
        vector = expect.vectors()["gap-of-five-before-a-green-packet"]
        cell, lost = int(vector.values["policer"]), int(vector.values["queue_lost"])
        station, port = mac_number(host_mac(1)), self.p4_port(1)
        self.control.delete(entries.forward(station, port))
        self.device.write_register("packet_number", cell, int(vector.values["packet_number"]) - 1)
        self.device.write_register("sequence", FIRST.number, int(vector.values["sequence"]))
        self.device.write_register("number_packets.last_number", port, 100 + lost)
        self.device.write_register("queue.last_number", port, 100)
        self.install(
            entries.forward_numbered(station, port),
            entries.token_bucket(cell, 10_000),
            entries.police_shared(cell, src=entries.ip(vector.values["src"])),
            entries.report_queue_drops(port, FIRST.session, FIRST.number),
        )
        inner = vector.payload[expect.HEADERS_BYTES + 4 :]
        (frame,) = self.traffic.exchange(2, [inner], rounds=2)[FIRST.port]
        payload = payload_of(frame, FIRST.switch, FIRST.here)
        wanted = bytearray(vector.payload)
        for field in (INGRESS_NS, EGRESS_NS):
            wanted[field] = payload[field]
        self.assertEqual(payload.hex(), wanted.hex())
