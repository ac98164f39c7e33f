# SPDX-License-Identifier: Apache-2.0
"""Wires between the hosts and a switch that emulates no links: `weir-switch wire` has delay, jitter and loss.

   host's namespace          the sandbox's root namespace
┌──────────────────┐  veth  ┌──────────────────────────────────────────────────┐
│ eth0             ├────────┤ weir1 ── weir-switch wire ── wire1 ══ veth ══ port1 ── switch
└──────────────────┘        └──────────────────────────────────────────────────┘

A host whose link has none of these is wired directly: the switch's port is weir1 then. For a switch elsewhere
the wire's other end is a network card of this machine, whose cable leads to the switch's port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.topo.process import LoggedProcess, RunningProgram, run_tool
from weir.topo.stop import StopToken
from weir.topo.testbed import MTU_BYTES, link_statistics, turn_offloads_off, wait_link_active
from weir.topo.tools import find_own_program

_READY_S = 15.0
_STOP_S = 10.0
_NAME = "wire"


@dataclass(frozen=True)
class WireSpec:
    """The wire to the host at a switch port; `interface` is the end of the host's own link.

    Delay, jitter and loss are of frames to the host; so is the rate, as the host has its own line.
    """

    port: int
    interface: str
    delay_ns: int = 0
    jitter_ns: int = 0
    loss_ppb: int = 0
    line_rate_bps: int | None = None
    card: str | None = None
    """The network card that the wire leads to."""

    @property
    def is_plain(self) -> bool:
        """Whether it does nothing to a frame, and leads nowhere else."""
        acts = self.delay_ns or self.jitter_ns or self.loss_ppb or self.line_rate_bps
        return not (acts or self.card)

    @property
    def far_end(self) -> str:
        """The wire's other interface."""
        return self.card or f"wire{self.port}"

    @property
    def switch_interface(self) -> str:
        """The interface that the switch opens; for a switch elsewhere the card."""
        if self.card is not None:
            return self.card
        return self.interface if self.is_plain else f"port{self.port}"

    @property
    def _beyond(self) -> list[str]:
        """The interfaces between the wire and the switch."""
        return list(dict.fromkeys((self.far_end, self.switch_interface)))

    def create(self) -> None:
        """Make the interfaces between the wire and the switch. Raises ProcessError, TestbedError."""
        options = f"mtu {MTU_BYTES} txqueuelen 1000"
        if self.card is None:
            pair = f"link add {self.far_end} {options} type veth peer name {self.switch_interface} {options}"
            run_tool("ip", *pair.split())
        for end in self._beyond:
            turn_offloads_off([], end)
            run_tool("ip", "link", "set", end, "up")
        for end in self._beyond:
            wait_link_active([], end)

    def kernel_drops(self, counted: Mapping[str, tuple[int, int]]) -> int:
        """Frames that the kernel dropped between the wire and the switch, of `link_statistics`."""
        return sum(sum(counted[name]) for name in self._beyond)

    def argument(self) -> str:
        """The value of `--pair`."""
        parts = [f"a={self.interface}", f"b={self.far_end}"]
        for name, value, unit in (
            ("delay", self.delay_ns, "ns"),
            ("jitter", self.jitter_ns, "ns"),
            ("loss", self.loss_ppb, "ppb"),
            ("line", self.line_rate_bps, "bit/s"),
        ):
            if value:
                parts.append(f"a.{name}={value}{unit}")
        return ",".join(parts)


@dataclass(frozen=True)
class WireCounters:
    """What one wire lost: at random, before it read a frame, in sending one; and what it still holds."""

    lost: int
    overruns: int
    errors: int
    in_flight: int


class Wiring(RunningProgram):
    """A running `weir-switch wire` with the wires that are not plain, of which there is at least one."""

    def __init__(self, wires: Sequence[WireSpec], folder: Path, *, seed: int) -> None:
        """Create the links to the switch and start it. Raises ToolMissingError or ProcessError.

        Its log and counters go to ``folder``; ``seed`` is that of jitter and loss.
        """
        self._wires = [wire for wire in wires if not wire.is_plain]
        if not self._wires:
            raise ValueError("all wires are plain; a wiring needs one that is not")
        for wire in self._wires:
            wire.create()
        self.stats_path = folder / "wire.json"
        argv = [str(find_own_program("weir-switch")), "wire", "--links", "127.0.0.1:0", "--seed", str(seed)]
        for wire in self._wires:
            argv += ["--pair", wire.argument()]
        argv += ["--stats", str(self.stats_path)]
        self._dropped_before = self._all_drops()
        super().__init__(LoggedProcess(_NAME, argv, folder / "wire.log"), _STOP_S)

    def wait_ready(self, stop: StopToken | None = None) -> None:
        """Wait until it forwards. Raises ProcessError or Interrupted."""
        self._process.wait_line("wire, links on ", _READY_S, stop)

    def counters(self) -> tuple[int, dict[int, WireCounters]]:
        """The time of the counters, in ns, and those of each wire by switch port.

        They are written five times a second while it runs, and exactly when it ends.
        """
        stats = self._read_json(self.stats_path)
        ends = {port["port"]: port for port in stats["ports"]}
        return stats["uptime_ns"], {
            # The ends are ports 1 and 2 of the first pair, 3 and 4 of the second.
            wire.port: _counters(ends[2 * index + 1], ends[2 * index + 2])
            for index, wire in enumerate(self._wires)
        }

    def stop(self) -> dict[int, WireCounters]:
        """End it and return the final counters of each wire by switch port. Raises ProcessError."""
        self._end()
        return self.counters()[1]

    def kernel_drops(self) -> dict[int, int]:
        """Frames that the kernel dropped between wires and switch, by switch port, without zeros."""
        found = self._all_drops()
        drops = {port: count - self._dropped_before[port] for port, count in found.items()}
        return {port: count for port, count in drops.items() if count}

    def _all_drops(self) -> dict[int, int]:
        found = link_statistics(run_tool("ip", "-s", "-json", "link", "show"))
        return {wire.port: wire.kernel_drops(found) for wire in self._wires}


def _counters(a: dict[str, Any], b: dict[str, Any]) -> WireCounters:
    return WireCounters(
        lost=a["link_lost"] + a["queue_drops"] + b["queue_drops"] + b["link_lost"],
        overruns=a["rx_overruns"] + b["rx_overruns"],
        errors=a["tx_errors"] + b["tx_errors"],
        in_flight=a["in_flight"] + b["in_flight"],
    )
