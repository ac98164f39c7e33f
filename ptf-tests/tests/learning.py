# SPDX-License-Identifier: Apache-2.0
"""Learned policers: a new flow is announced and hashed; a known one has its own bucket."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weir.controlplane.cells import hashed_cell
from weir.controlplane.entities import TableEntry
from weir.controlplane.learning import FlowLearner, LearningStatus
from weir.ptftests import entries, packets
from weir.ptftests.base import WeirTest
from weir.ptftests.entries import IPV6, RED
from weir.ptftests.packets import DST_IP, DST_IP6, DST_PORT, SRC_IP, SRC_IP6, SRC_PORT
from weir.ptftests.reports import FIRST

UDP = 17
HASHED_CELLS = 16


@dataclass(frozen=True, slots=True)
class Announced:
    """New flows of one policer."""

    digest_id: str
    flows: tuple[Mapping[str, int], ...]

    def __iter__(self) -> Iterator[Mapping[str, int]]:
        """Each flow."""
        return iter(self.flows)


class Learning(WeirTest):
    """A learned policer for the tests' port: 16 hashed cells, then the known flow's cell."""

    def setUp(self) -> None:
        super().setUp()
        self.own_cell = self.cell + HASHED_CELLS
        self.install(
            *(
                entries.token_bucket(self.cell + number, entries.burst_of(2))
                for number in range(HASHED_CELLS)
            ),
            entries.token_bucket(self.own_cell, entries.burst_of(5)),
            entries.verdict((self.cell, 0xFF00), RED, "drop_packet"),
            entries.police_learned(self.cell, HASHED_CELLS - 1, dst_port=DST_PORT),
            entries.police_learned(self.cell, HASHED_CELLS - 1, table=IPV6, dst_port=DST_PORT),
        )

    def known_flow(self) -> TableEntry:
        """The entry that gives the tests' flow its own cell."""
        return entries.learned(
            self.own_cell,
            src=entries.ip(SRC_IP),
            dst=entries.ip(DST_IP),
            protocol=UDP,
            src_port=SRC_PORT,
            dst_port=DST_PORT,
        )

    def learn(self) -> None:
        """Give the tests' flow its own cell."""
        self.install(self.known_flow())

    def announced(self) -> Announced:
        """The next new flows of the test's policer.

        bmv2 buffers digests for up to a second, so those of earlier tests can come too; they are skipped.
        On Tofino one list can have flows of both.
        """
        while True:
            digest = self.control.digest()
            flows = tuple(flow for flow in digest if flow["base"] == self.cell)
            if flows:
                return Announced(digest.digest_id, flows)

    def unlearned(self) -> int:
        """Packets of the policer whose flow had no cell."""
        return self.control.counts("unlearned_counter", [self.cell])[self.cell].packets

    def hashed(self, src_port: int) -> int:
        """The cell of an unknown flow."""
        return hashed_cell(self.cell, HASHED_CELLS, SRC_IP, DST_IP, UDP, src_port, DST_PORT)


class ANewFlowIsAnnouncedWithItsFiveTuple(Learning):
    needs = ("digests",)

    def runTest(self) -> None:
        self.control.listen()
        self.traffic.exchange(1, [packets.udp()])
        digest = self.announced()
        self.assertEqual(digest.digest_id, "flow_digest_t")
        self.assertEqual(
            list(digest),
            [
                {
                    "src": entries.ip(SRC_IP),
                    "dst": entries.ip(DST_IP),
                    "protocol": UDP,
                    "src_port": SRC_PORT,
                    "dst_port": DST_PORT,
                    "base": self.cell,
                }
            ],
        )


class ANewIpv6FlowIsAnnouncedWithItsFiveTuple(Learning):
    needs = ("digests",)

    def runTest(self) -> None:
        self.control.listen()
        header = packets.IPv6(src=SRC_IP6, dst=DST_IP6)
        transport = packets.UDP(sport=SRC_PORT, dport=DST_PORT)
        self.traffic.exchange(1, [packets.sized(packets.ethernet() / header / transport)])
        (flow,) = list(self.announced())
        self.assertEqual((flow["src"], flow["dst"]), (entries.ip(SRC_IP6), entries.ip(DST_IP6)))
        self.assertEqual((flow["src_port"], flow["dst_port"], flow["base"]), (SRC_PORT, DST_PORT, self.cell))


class AnUnknownFlowMeetsAHashedCellAndIsCountedUnlearned(Learning):
    def runTest(self) -> None:
        sent = packets.numbered(5)
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent[:2])
        cell = self.hashed(SRC_PORT)
        self.assertEqual(self.control.counts("met_counter", [cell])[cell].packets, 5)
        self.assertEqual(self.unlearned(), 5)


class AKnownFlowMeetsItsOwnCell(Learning):
    def runTest(self) -> None:
        self.learn()
        sent = packets.numbered(8)
        self.assertEqual(self.traffic.exchange(1, sent)[2], sent[:5])
        self.assertEqual(self.control.counts("met_counter", [self.own_cell])[self.own_cell].packets, 8)
        self.assertEqual(self.unlearned(), 0)


class AKnownIpv6FlowMeetsItsOwnCell(Learning):
    def runTest(self) -> None:
        self.install(
            entries.learned(
                self.own_cell,
                table="flow_policer_ipv6",
                src=entries.ip(SRC_IP6),
                dst=entries.ip(DST_IP6),
                protocol=UDP,
                src_port=SRC_PORT,
                dst_port=DST_PORT,
            )
        )
        header = packets.IPv6(src=SRC_IP6, dst=DST_IP6)
        transport = packets.UDP(sport=SRC_PORT, dport=DST_PORT)
        frame = packets.sized(packets.ethernet() / header / transport, packets.FRAME_BYTES)
        self.assertEqual(self.traffic.exchange(1, [frame] * 8)[2], [frame] * 5)
        self.assertEqual(self.unlearned(), 0)


class ReportsOfAKnownFlowSayThatItIsTracked(Learning):
    def runTest(self) -> None:
        self.install(entries.report_drops((self.cell, 0xFF00), FIRST.session, FIRST.number))
        unknown = self.reports.decode(self.traffic.exchange(1, packets.numbered(8))[FIRST.port])
        self.learn()
        known = self.reports.decode(self.traffic.exchange(1, packets.numbered(8))[FIRST.port])
        self.assertEqual([report.tracked for report in unknown], [False] * 6)
        self.assertEqual([report.tracked for report in known], [True] * 3)


class WhenTheCellsRunOutFlowsStayHashedAndTheControlPlaneSaysSo(Learning):
    needs = ("digests",)

    def runTest(self) -> None:
        pool = range(self.own_cell, self.own_cell + 3)
        learner = FlowLearner({self.cell: pool})
        self.install(*(entries.token_bucket(cell, entries.burst_of(5)) for cell in pool))
        self.control.listen()
        ports = range(7001, 7006)
        flows = {port: packets.numbered(6, packets.FRAME_BYTES, src_port=port) for port in ports}
        for port in ports:
            self.traffic.exchange(1, flows[port][:1])
            self.install(*learner.entries(self.announced()))
        self.assertEqual(learner.status(self.cell), LearningStatus(3, 0, 2))
        for port in ports:
            self.traffic.exchange(1, flows[port][1:])
        met = self.control.counts("met_counter", pool)
        self.assertEqual([count.packets for count in met.values()], [5, 5, 5])
        # The first packet of each flow, and all packets of two flows.
        self.assertEqual(self.unlearned(), 3 + 2 * 6)


class AFlowThatIsForgottenMeetsItsHashedCellAgain(Learning):
    needs = ("deletes_in_place",)

    def runTest(self) -> None:
        self.learn()
        self.traffic.exchange(1, packets.numbered(3))
        self.control.delete(self.known_flow())
        self.traffic.exchange(1, packets.numbered(2))
        met = self.control.counts("met_counter", [self.own_cell, self.hashed(SRC_PORT)])
        self.assertEqual([count.packets for count in met.values()], [3, 2])


class AFloodOfNewFlowsFillsHashedCellsAndTakesNothingFromKnownOnes(Learning):
    flows = 1000

    def runTest(self) -> None:
        self.learn()
        beyond = range(self.own_cell, self.cell + 256)
        before = self.control.counts("met_counter", beyond)  # generated packets meet any cell
        flood = [
            packets.udp(packets.FRAME_BYTES, src_port=port) for port in range(10_000, 10_000 + self.flows)
        ]
        self.traffic.exchange(1, flood)
        known = packets.numbered(8)
        self.assertEqual(self.traffic.exchange(1, known)[2], known[:5])
        self.assertEqual(self.unlearned(), self.flows)
        cells = range(self.cell, self.cell + HASHED_CELLS)
        met = self.control.counts("met_counter", cells)
        self.assertEqual(sum(count.packets for count in met.values()), self.flows)
        self.assertTrue(all(met[cell].packets for cell in cells))
        other = self.control.counts("met_counter", beyond)
        more = {cell: count.packets - before[cell].packets for cell, count in other.items()}
        self.assertEqual({cell: number for cell, number in more.items() if number}, {self.own_cell: 8})
