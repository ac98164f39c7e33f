# SPDX-License-Identifier: Apache-2.0
"""Every path of the program that p4testgen found, with the entries and the packet that take it."""

from collections.abc import Iterator

from weir.ptftests import entries, scripts
from weir.ptftests.base import WeirTest
from weir.ptftests.config import PORTS
from weir.ptftests.control import Writable
from weir.ptftests.traffic import sentinel_mac

ETHERNET_BYTES = 14  # Linux neither sends nor delivers less


class EveryGeneratedPacketComesOutAsTheGeneratorSays(WeirTest):
    needs = ("short_frames",)

    def runTest(self) -> None:
        self.control.undo()  # generated entries may be for the same stations, sessions and collectors
        for script in scripts.read(scripts.FOLDER / "weir.stf"):
            if len(script.frame) < ETHERNET_BYTES or not script.ports <= set(PORTS):
                continue  # p4testgen has neither limit; its mirror sessions may name any port
            with self.subTest(script.name):
                try:
                    self.install(*self._sentinels(), *script.written)
                    left = self.traffic.exchange(script.port, [script.frame], rounds=2)
                finally:
                    self.control.undo()
                self.assertIsNone(script.problem(left))

    def _sentinels(self) -> Iterator[Writable]:
        yield entries.flood_group(tuple(self.p4_port(port) for port in PORTS))
        for port in PORTS:
            yield entries.forward(sentinel_mac(port), self.p4_port(port))
