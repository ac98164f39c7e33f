# SPDX-License-Identifier: Apache-2.0
"""Base class of all PTF tests: a switch with two hosts and two collectors, and a check that all is removed.

station 1 ── port 1 ┐           ┌ port 3 ── collector 1
                    ┼ the switch┼
station 2 ── port 2 ┘           └ port 4 ── collector 2
"""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import ptf
from finsy.proto import p4i
from ptf import testutils

from weir.controlplane.config.values import BFRUNTIME
from weir.controlplane.entities import Count
from weir.ptftests import entries, packets
from weir.ptftests.bfruntime_control import BfRtControl
from weir.ptftests.capabilities import FRAME_GAP_S, TARGETS, capabilities
from weir.ptftests.config import PORTS, RunConfig
from weir.ptftests.control import Control, Writable
from weir.ptftests.device import Device
from weir.ptftests.reports import Reports
from weir.ptftests.traffic import Traffic, sentinel_mac


@cache
def _config() -> RunConfig:
    return RunConfig.load(Path(testutils.test_param_get("config")))


@cache
def _control() -> Control | BfRtControl:
    """One connection for all tests."""
    config = _config()
    return BfRtControl(config) if config.address.startswith(BFRUNTIME) else Control(config)


@cache
def _cells() -> Iterator[int]:
    """Blocks of 256 cells, each used by one test, so that its packet numbers begin at 1.

    Where there are fewer blocks than tests, the last tests use those of the first ones again.
    """
    return itertools.cycle(range(256, 65_536 if TARGETS[_config().target].cells_65536 else 16_384, 256))


class WeirTest(unittest.TestCase):
    """One behaviour. `needs` names capabilities without which the test is skipped."""

    needs: tuple[str, ...] = ()
    policer: p4i.MeterSpec.Type.ValueType | None = None
    """The policers' MeterSpec.Type in this test; by default that of the P4Info."""

    def setUp(self) -> None:
        """Put stations, flood group, mirror sessions and collectors on the switch."""
        name = f"{type(self).__module__}.{type(self).__name__}"
        ptf.open_logfile(name)
        self.config = _config()
        bfruntime = self.config.address.startswith(BFRUNTIME)
        self.can = capabilities(self.config.target, bfruntime)
        entries.METERING.own_packet_counts = bool(self.can.own_packet_counts)
        for capability in self.needs:
            ability = getattr(self.can, capability)
            if not ability:
                self.skipTest(f"SKIP {name} on {self.config.target}: {ability.why}")
        self.control = _control()
        self.device = Device(self.config, self.control)
        self.traffic = Traffic(ptf.dataplane_instance, FRAME_GAP_S.get(self.config.target, 0.0))
        self.cell = next(_cells())
        if self.policer is not None:
            self.addCleanup(self.control.push)
            self.control.push(self.policer)
        before = self.control.entities()
        self.addCleanup(self._assert_unchanged, before)
        self.addCleanup(self.control.undo)
        self.reports = Reports(self.control, self.traffic, self.p4_port, self.can)
        self.control.insert(*self._stations(), *self.reports.entities())

    def p4_port(self, port: int) -> int:
        """The switch's number of a port."""
        return self.config.port(port).p4_port

    def install(self, *written: Writable) -> None:
        """Insert entries; set meter cells."""
        for entity in written:
            if isinstance(entity, entries.METERS):
                self.control.modify(entity)
            else:
                self.control.insert(entity)

    def passing(self, cell: int, frames: int) -> Iterator[Writable]:
        """A two-colour policer of a cell that lets a number of frames pass, all green."""
        yield entries.token_bucket(cell, entries.burst_of(frames))
        if frames == 0 and not self.can.own_packet_counts:
            yield entries.comes_in(cell, "red")

    def assert_colours(self, cell: int, packets_met: Iterable[tuple[int, int]]) -> None:
        """Compare the cell's counters, which began at 0, with its packets, as (bytes, colour)."""
        wanted = [Count(0, 0)] * len(entries.COLOURS)
        met = 0
        for size, colour in packets_met:
            wanted[colour] = Count(wanted[colour].packets + 1, wanted[colour].bytes + size)
            met += 1
        counted = self.control.counts("policer_counter", [cell * 4 + colour for colour in entries.COLOURS])
        self.assertEqual([counted[cell * 4 + colour] for colour in entries.COLOURS], wanted)
        self.assertEqual(self.control.counts("met_counter", [cell])[cell].packets, met)

    def drops(self, reason: int) -> int:
        """Packets that ingress has dropped for a reason."""
        return self.control.counts("drop_counter", [reason])[reason].packets

    def _stations(self) -> Iterator[Writable]:
        yield entries.flood_group(tuple(self.p4_port(port) for port in PORTS))
        for port in PORTS:
            yield entries.forward(packets.mac_number(packets.host_mac(port)), self.p4_port(port))
            yield entries.forward(sentinel_mac(port), self.p4_port(port))

    def _assert_unchanged(self, before: set[str]) -> None:
        changed = self.control.entities() ^ before
        self.assertFalse(changed, f"the test left the switch changed: {changed}")
