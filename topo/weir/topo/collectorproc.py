# SPDX-License-Identifier: Apache-2.0
"""Starts weir-collector in the collector host's namespace, and reads its accounting when it has ended."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weir.topo.process import LoggedProcess
from weir.topo.stop import StopToken
from weir.topo.testbed import Testbed
from weir.topo.tools import find_own_program

REPORT_PORT = 32766
_READY_S = 15.0
# Draining the socket and writing the Parquet footer of a long run takes its time.
_STOP_S = 30.0


class CollectorProcess:
    """A running weir-collector; a context manager that ends it whatever happened."""

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
    ) -> None:
        """Start it on the host's address. Raises ToolMissingError or ProcessError."""
        self.output = output
        self.accounting = accounting
        executable = program if program is not None else find_own_program("weir-collector")
        argv = [str(executable), "--listen", f"{testbed.host(host).address}:{port}"]
        argv += ["--output", str(output), "--accounting", str(accounting)]
        if run_id is not None:
            argv += ["--run-id", run_id]
        self._process = LoggedProcess(
            "weir-collector", testbed.command(host, argv), log_folder / "weir-collector.log"
        )

    def wait_ready(self, stop: StopToken | None = None) -> None:
        """Wait until reports are being received. Raises ProcessError or Interrupted."""
        self._process.wait_line("listening on ", _READY_S, stop)

    def check_running(self) -> None:
        """Raise ProcessError when the collector has ended by itself."""
        self._process.check_running()

    def stop(self) -> dict[str, Any]:
        """End the collector, which first takes in what has arrived; return its accounting.

        Raises ProcessError when it fails or leaves no accounting.
        """
        self._process.check_running()
        code = self._process.stop(grace_s=_STOP_S)
        if code != 0:
            raise self._process.error(f"ended with exit code {code} when told to stop")
        try:
            accounting = json.loads(self.accounting.read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise self._process.error(f"left no readable {self.accounting.name} ({error})") from error
        if not isinstance(accounting, dict):
            raise self._process.error(f"wrote no JSON object to {self.accounting}")
        return accounting

    def __enter__(self) -> Self:
        """Nothing to do: the collector runs since it was made."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the collector when `stop` has not."""
        self._process.stop(grace_s=_STOP_S)
