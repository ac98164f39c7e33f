# SPDX-License-Identifier: Apache-2.0
"""What a test's control plane writes over BfRuntime is on the switch, and gone after `undo`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from finsy import P4MeterConfig, P4MeterEntry

from weir.controlplane.entities import CloneSession, Count, Match, MeterCell, MulticastGroup, TableEntry
from weir.controlplane.errors import ControlPlaneError, WriteError
from weir.ptftests import bfruntime_control
from weir.ptftests.bfruntime_control import BfRtControl
from weir.ptftests.config import RunConfig
from weir_tests.controlplane.bfrt_files import compiler_output


@pytest.fixture(name="config")
def _config(tmp_path: Path) -> Iterator[RunConfig]:
    command = [sys.executable, "-m", "weir_tests.controlplane.bfruntime_server", "none", "0"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = f"bfruntime://{server.stdout.readline().strip()}"
        yield RunConfig("tofino", address, 0, (), "", str(compiler_output(tmp_path / "out")))
        assert server.stdin is not None
        server.stdin.close()


def test_what_a_test_writes_is_on_the_switch_and_gone_after_undo(config: RunConfig) -> None:
    bfruntime_control.push(config)
    control = BfRtControl(config)
    try:
        before = control.entities()
        forward = TableEntry("forward", (Match("dst", 5),), "set_egress", (("port", 132),))
        group, session = MulticastGroup(1, (132, 140)), CloneSession(3, (148,), 160)
        control.insert(forward, group, session)
        control.modify(MeterCell("policer", 256, 1_250_000, 64_000))
        config_of_cell = P4MeterConfig(cir=125, cburst=1000, pir=125, pburst=1000)
        control.modify(P4MeterEntry("policer", index=257, config=config_of_cell))
        control.write_register("packet_number", 256, 9)
        control.listen()
        assert control.entities() - before == {repr(forward), repr(group), repr(session)}
        assert control.counts("met_counter", [256]) == {256: Count(0, 0)}
        assert control.full_name("sequence").endswith("send_report.sequence")
        with pytest.raises(WriteError, match=r"insert table forward .*ALREADY_EXISTS"):
            control.insert(forward)
        control.delete(session)
        control.undo()
        assert control.entities() == before
        control.push()
        with pytest.raises(ControlPlaneError, match="two-rate meters"):
            control.push(2)  # type: ignore[arg-type]
    finally:
        control.close()


def test_a_program_that_was_not_loaded_is_no_program_of_a_test(config: RunConfig) -> None:
    control = BfRtControl(config)
    try:
        with pytest.raises(ControlPlaneError, match="does not run the program"):
            control.entities()
    finally:
        control.close()


def test_no_meter_cell_is_written_with_less_than_1_kbit_per_s() -> None:
    cell = MeterCell("policer", 1, 1, 300, peak_rate_bytes_per_s=2, peak_burst_bytes=700)
    written = bfruntime_control.at_least_1_kbit_per_s(cell)
    assert (written.rate_bytes_per_s, written.peak_rate_bytes_per_s) == (125, 125)
    assert (written.burst_bytes, written.peak_burst_bytes) == (300, 700)
    faster = MeterCell("policer", 1, 126, 300)
    assert bfruntime_control.at_least_1_kbit_per_s(faster) == faster
