# SPDX-License-Identifier: Apache-2.0
"""The stage of a run on a testbed: hosts over SSH, and the switch that they are cabled to, known by address.

this machine ── ssh ──► hosts, collector ══ cables ══ switch
             ── P4Runtime or BfRuntime ─────────────► switch

Nothing but the control connections passes this machine: captures and reports are files of the hosts, brought
here when the flows have ended.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from weir.controlplane.attach import HostPort
from weir.controlplane.config import COLLECTOR, ExperimentConfig
from weir.controlplane.errors import SwitchUnreachableError
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import ClockReading
from weir.rundir.plural import plural
from weir.runner.switch_by_address import SwitchByAddress
from weir.testbed.hosts import RemoteHosts
from weir.testbed.inventory import TestbedConfig
from weir.testbed.joined import addresses6_of, addresses_of
from weir.testbed.sockets import RemoteSocketSampler
from weir.topo.capture import Capture
from weir.topo.interfaces import InterfaceCounters
from weir.topo.program import ProcessError
from weir.topo.receive_queue import QueueCounts
from weir.topo.stop import StopToken
from weir.topo.tools import find_own_program
from weir.topo.traffic import MAX_SOURCE_OFFSET

_REACH_S = 5.0
_REPORT_BYTES = 65_535
_PORTS_PER_S = 50
_LOSSES = ("tx_dropped", "rx_missed_errors", "rx_fifo_errors", "rx_over_errors")
"""Counters of frames that a host's network card or its driver lost. rx_dropped also counts frames of
protocols that the host does not know."""


class TestbedStage:
    """The testbed's hosts, changed for a run as long as the context."""

    __test__ = False  # not a pytest class, although its name begins with Test

    def __init__(self, experiment: ExperimentConfig, testbed: TestbedConfig, stop: StopToken) -> None:
        """Take the experiment's hosts and the collector; the context sets them up."""
        self._experiment = experiment
        self.hosts = RemoteHosts(
            testbed, addresses_of(experiment, testbed), stop, addresses6_of(experiment, testbed)
        )
        self.addresses: dict[str, HostPort] = {}
        self._sink: HostPort | None = None
        self._losses_before: dict[str, int] = {}

    @property
    def sink(self) -> HostPort:
        """The host that receives reports."""
        assert self._sink is not None  # in the context
        return self._sink

    def __enter__(self) -> Self:
        """Connect and set up. Raises HostError."""
        self.hosts.__enter__()
        self.addresses = {
            name: HostPort(host.switch_port, host.mac, host.address, host.address6)
            for name, host in self.hosts.hosts.items()
        }
        self._sink = self.addresses.pop(COLLECTOR)
        self._losses_before = self._losses()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Put everything back. Raises HostError."""
        self.hosts.__exit__(kind, error, traceback)

    def switch(self, logs: Path) -> TestbedSwitch:
        """The switch at its address."""
        return TestbedSwitch(self._experiment, self.hosts, self.addresses)

    def collector(self, files: RunDirectory, run_id: str) -> ReportCapture:
        """A capture of the reports."""
        return ReportCapture(self.hosts, files, run_id, self._experiment.telemetry.port)

    def sampler(self, path: Path, interval_s: float) -> RemoteSocketSampler:
        """A process on each sending host."""
        return RemoteSocketSampler(self.hosts, path, interval_s=interval_s)

    def probe(self, logs: Path) -> None:
        """Nothing of the run passes this machine."""

    def source_port_offset(self) -> int:
        """Another one each second: a closed connection keeps its port for a minute (TIME-WAIT, RFC 9293)."""
        return int(time.time()) * _PORTS_PER_S % MAX_SOURCE_OFFSET

    def check(self) -> None:
        """Raise ProcessError for a full disk."""
        self.hosts.check_disks()

    def notes(self) -> list[str]:
        """What setting up found."""
        return list(self.hosts.notes)

    def lost(self) -> list[str]:
        """By the counters of the hosts' network cards."""
        lost = {name: count - self._losses_before[name] for name, count in self._losses().items()}
        return [
            f"the network card of {name} lost {plural(count, 'frame')}"
            for name, count in lost.items()
            if count > 0
        ]

    def receive_queues(self) -> Mapping[str, QueueCounts]:
        """None: weir does not change queues of other machines."""
        return {}

    def clocks(self) -> Mapping[str, tuple[ClockReading, ...]]:
        """As read at the beginning and now, unless a host is lost."""
        self.hosts.read_clocks()
        return {
            name: tuple(
                ClockReading(
                    at_ns=one.at_ns,
                    offset_s=one.offset.offset_ns / 1e9,
                    error_s=one.offset.error_ns / 1e9,
                )
                for one in readings
            )
            for name, readings in self.hosts.clocks.items()
        }

    def _losses(self) -> dict[str, int]:
        return {
            name: sum(found.get(counter, 0) for counter in _LOSSES)
            for name, found in self.hosts.counters().items()
        }


class TestbedSwitch(SwitchByAddress):
    """The switch at `switch.address`, which this machine reaches without a relay."""

    __test__ = False

    via = None

    def __init__(
        self, experiment: ExperimentConfig, hosts: RemoteHosts, addresses: Mapping[str, HostPort]
    ) -> None:
        """The ends of its cables are the hosts' interfaces; `addresses` are the experiment's hosts."""
        self._hosts = hosts
        cards = {host.switch_port: f"{name}:{host.interface}" for name, host in hosts.hosts.items()}
        super().__init__(experiment, addresses, cards)

    def wait_ready(self, stop: StopToken) -> None:
        """Raise SwitchUnreachableError if nothing listens at the address."""
        host, _, port = self._address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
        except OSError as error:
            raise SwitchUnreachableError(
                f"switch.address: no switch answers at {self._address}: {error.strerror or error}"
            ) from error

    def stop(self) -> None:
        """Nothing: it runs on."""

    def problems(self) -> list[str]:
        """None: `TestbedStage.lost` has the cards' losses."""
        return []

    def _card_counters(self) -> Mapping[int, InterfaceCounters]:
        return {
            self._hosts.host(name).switch_port: InterfaceCounters(
                rx_packets=found["rx_packets"],
                rx_bytes=found["rx_bytes"],
                tx_packets=found["tx_packets"],
                tx_bytes=found["tx_bytes"],
            )
            for name, found in self._hosts.counters().items()
        }

    def __enter__(self) -> Self:
        """Nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing."""


class ReportCapture:
    """The reports as captured on the collector's host; weir-collector reads them here when the run ends."""

    def __init__(self, hosts: RemoteHosts, files: RunDirectory, run_id: str, port: int) -> None:
        """Start the capture, and a socket for the reports, without which the host would answer with ICMP."""
        self._files, self._run_id, self._port = files, run_id, port
        self._path = files.captures / f"{COLLECTOR}.pcap"
        self._capture = Capture(
            hosts,
            COLLECTOR,
            self._path,
            files.logs,
            snap_bytes=_REPORT_BYTES,
            filter_expression=f"udp dst port {port}",
        )
        address = hosts.host(COLLECTOR).address
        program = (
            "import signal, socket; s = socket.socket(type=socket.SOCK_DGRAM); "
            f"s.bind(({address!r}, {port})); print('bound', flush=True); signal.pause()"
        )
        argv = ["python3", "-I", "-S", "-c", program]
        self._socket = hosts.start(COLLECTOR, "socket for reports", argv, files.logs / "reports-socket.log")

    def wait_ready(self, stop: StopToken) -> None:
        """Wait until reports are captured."""
        self._socket.wait_line("bound", _REACH_S, stop)
        self._capture.wait_ready(stop)

    def check_running(self) -> None:
        """Raise ProcessError if the capture has ended by itself."""
        self._capture.check_running()

    def stop(self) -> None:
        """End the capture, bring it here, and make telemetry and accounting of it."""
        found = self._capture.stop()
        self._socket.stop()
        if found.lost:
            raise ProcessError(f"the capture of reports on {COLLECTOR} lost {plural(found.lost, 'packet')}")
        files = self._files
        argv = [str(find_own_program("weir-collector")), "--read", str(self._path), "--port", str(self._port)]
        argv += ["--output", str(files.telemetry), "--accounting", str(files.accounting)]
        argv += ["--run-id", self._run_id]
        log = files.logs / "weir-collector.log"
        with log.open("w") as output:
            done = subprocess.run(argv, stdout=output, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise ProcessError(f"weir-collector failed ({done.returncode}); log: {log}\n{log.read_text()}")
        self._path.unlink()

    def __enter__(self) -> Self:
        """Nothing: the constructor has started it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it if `stop` has not."""
        self._capture.__exit__(kind, error, traceback)
        self._socket.stop()
