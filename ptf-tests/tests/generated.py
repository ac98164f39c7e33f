# SPDX-License-Identifier: Apache-2.0
"""Every path of the program that p4testgen found, with the entries and the packet that take it."""

from collections.abc import Iterator
from dataclasses import replace

from weir.controlplane.entities import TableEntry
from weir.ptftests import entries, fitted, packets, scripts
from weir.ptftests.base import WeirTest
from weir.ptftests.config import PORTS
from weir.ptftests.control import Writable
from weir.ptftests.expect import OUTER_BYTES
from weir.ptftests.model.chips import TOFINO1, TOFINO2, Chip
from weir.ptftests.reports import FIRST, MIRROR_HEADER_BYTES
from weir.ptftests.traffic import sentinel_mac

ETHERNET_BYTES = 14  # Linux neither sends nor delivers less

REPORT_PORT = 4
TOFINO_CELLS = 16_384
SESSIONS = 200  # no driver gives session 0, and Tofino 2's none beyond 255
BRIDGE_DIGITS = 2 * 26
"""Digits of `bridge_t` (p4src/tna/types.p4): its frames leave without egress, which removes it."""
TIMES = slice(2 * (OUTER_BYTES + 24), 2 * (OUTER_BYTES + 40))
"""Of a report's frame, in digits."""


class EveryGeneratedPacketComesOutAsTheGeneratorSays(WeirTest):
    needs = ("short_frames", "frame_length", "names_cut_header")

    def runTest(self) -> None:
        self.control.undo()  # generated entries may be for the same stations, sessions and collectors
        for script in scripts.read(scripts.FOLDER / "weir.stf"):
            if len(script.frame) < ETHERNET_BYTES or not script.ports <= set(PORTS):
                continue  # p4testgen has neither limit; its mirror sessions may name any port
            script = fitted.on_ports(script, ports(self))
            with self.subTest(script.name):
                try:
                    self.install(*self._sentinels(), *script.written)
                    left = self.traffic.exchange(script.port, [script.frame], rounds=2)
                finally:
                    self.control.undo()
                self.assertIsNone(script.problem(left))

    def _sentinels(self) -> Iterator[Writable]:
        return sentinels(self)


class EveryGeneratedTofinoPacketIsReportedAsTheGeneratorSays(WeirTest):
    needs = ("tna",)

    def runTest(self) -> None:
        self.control.undo()
        for script in scripts.read(scripts.FOLDER / f"{_chip(self).name}_reports.stf"):
            if len(script.frame) < least_bytes(self):
                continue
            script = fitted_to(self, script)
            with self.subTest(script.name):
                try:
                    self.install(*sentinels(self), *self._sessions(script), *script.written)
                    left = self.traffic.exchange(script.port, [script.frame], rounds=2)[REPORT_PORT]
                finally:
                    self.control.undo()
                (pattern,) = script.expected[REPORT_PORT]
                assert pattern is not None  # of these scripts
                # The generator has no clock.
                pattern = pattern[: TIMES.start] + "*" * (TIMES.stop - TIMES.start) + pattern[TIMES.stop :]
                # A packet that passed may leave through the same port.
                found = [frame for frame in left if frame != script.frame and len(frame) * 2 == len(pattern)]
                self.assertEqual(len(found), 1, f"left: {[frame.hex() for frame in left]}, not {pattern}")
                self.assertTrue(scripts.matches(found[0].hex(), pattern), f"{found[0].hex()}, not {pattern}")

    def _sessions(self, script: scripts.Script) -> Iterator[Writable]:
        """The mirror sessions that a script's entries name."""
        numbers = {
            dict(entry.args).get("session") for entry in script.written if isinstance(entry, TableEntry)
        } - {None}
        for number in {int(number or 0) for number in numbers}:
            yield entries.session(number, self.p4_port(REPORT_PORT), len(script.frame) + MIRROR_HEADER_BYTES)


class EveryGeneratedTofinoPacketIsTreatedAsTheGeneratorSays(WeirTest):
    needs = ("tna",)

    def runTest(self) -> None:
        self.control.undo()
        for script in scripts.read(scripts.FOLDER / f"{_chip(self).name}.stf"):
            if len(script.frame) < least_bytes(self):
                continue
            script = fitted_to(self, script)
            with self.subTest(script.name):
                try:
                    # The generator does not flood, so there is no group.
                    self.install(*sentinel_stations(self), *self.reports.entities(), *_reported(script))
                    left = self.traffic.exchange(script.port, [script.frame], rounds=2)
                finally:
                    self.control.undo()
                reports = self.reports.decode(left[FIRST.port]) if script.mirrored else []
                if script.mirrored:
                    left = {**left, FIRST.port: []}
                expected = {
                    port: tuple(pattern and pattern[BRIDGE_DIGITS:] for pattern in patterns)
                    for port, patterns in script.expected.items()
                }
                self.assertIsNone(replace(script, expected=expected).problem(left))
                if script.mirrored is None:
                    continue
                self.assertEqual(len(reports), 1, reports)
                (report,) = reports
                said = {"why": report.drop_reason, "tracked": report.tracked, "colour": report.colour}
                self.assertEqual(said, script.mirrored)
                self.assertTrue(report.dropped)
                self.assertTrue(script.frame.startswith(report.inner), report.inner.hex())


def _chip(test: WeirTest) -> Chip:
    """The chip whose program is tested, by the architecture in its P4Info."""
    return TOFINO2 if test.config.architecture == TOFINO2.architecture else TOFINO1


def ports(test: WeirTest) -> dict[int, int]:
    """The switch's numbers of the tests' ports."""
    return {port: test.p4_port(port) for port in PORTS}


def fitted_to(test: WeirTest, script: scripts.Script) -> scripts.Script:
    """A script with the ports, cells and mirror sessions of the Tofino under test."""
    return fitted.on_ports(fitted.in_cells(fitted.in_sessions(script, SESSIONS), TOFINO_CELLS), ports(test))


def _reported(script: scripts.Script) -> Iterator[Writable]:
    """A script's entries, with the tests' first collector instead of those that the generator chose."""
    for entity in script.written:
        if isinstance(entity, TableEntry) and entity.action == "report_drops":
            args = {"session": FIRST.session, "collector": FIRST.number}
            entity = replace(entity, args=tuple(sorted(args.items())))
        yield entity


def least_bytes(test: WeirTest) -> int:
    """The shortest frame that reaches the program as it is."""
    return ETHERNET_BYTES if test.can.short_frames else packets.MIN_FRAME_BYTES


def sentinels(test: WeirTest) -> Iterator[Writable]:
    """The entries that the traffic's sentinels need."""
    yield entries.flood_group(tuple(test.p4_port(port) for port in PORTS))
    yield from sentinel_stations(test)


def sentinel_stations(test: WeirTest) -> Iterator[Writable]:
    """The entries that forward sentinels."""
    for port in PORTS:
        yield entries.forward(sentinel_mac(port), test.p4_port(port))
