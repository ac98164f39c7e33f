# SPDX-License-Identifier: Apache-2.0
"""Starts weir-collector in the collector host's namespace, and reads its accounting after it has ended."""

from pathlib import Path
from typing import Any

from weir.topo.process import LoggedProcess, RunningProgram
from weir.topo.stop import StopToken
from weir.topo.testbed import Testbed
from weir.topo.tools import find_own_program

REPORT_PORT = 32766
_READY_S = 15.0
# Draining the socket and writing the Parquet footer of a long run take some time.
_STOP_S = 30.0


class CollectorProcess(RunningProgram):
    """A running weir-collector."""

    def __init__(
        self,
        testbed: Testbed,
        host: str,
        output: Path,
        accounting: Path,
        log_folder: Path,
        *,
        run_id: str | None = None,
        port: int = REPORT_PORT,
        program: Path | None = None,
        gather_ms: int = 0,
    ) -> None:
        """Start it on the host's address. Raises ToolMissingError or ProcessError.

        Reports wait in its socket for `gather_ms`, so that it is woken less often.
        """
        self.output = output
        self.accounting = accounting
        executable = program if program is not None else find_own_program("weir-collector")
        argv = [str(executable), "--listen", f"{testbed.host(host).address}:{port}"]
        argv += ["--output", str(output), "--accounting", str(accounting)]
        if gather_ms:
            argv += ["--gather", str(gather_ms)]
        if run_id is not None:
            argv += ["--run-id", run_id]
        log = log_folder / "weir-collector.log"
        super().__init__(LoggedProcess("weir-collector", testbed.command(host, argv), log), _STOP_S)

    def wait_ready(self, stop: StopToken | None = None) -> None:
        """Wait until reports are being received. Raises ProcessError or Interrupted."""
        self._process.wait_line("listening on ", _READY_S, stop)

    def stop(self) -> dict[str, Any]:
        """End the collector, which first reads the reports that have arrived; returns its accounting.

        Raises ProcessError if it fails or writes no accounting.
        """
        self._end()
        return self._read_json(self.accounting)
