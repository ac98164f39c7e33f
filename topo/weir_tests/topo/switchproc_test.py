# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.topo.switchproc import SwitchPort
from weir.topo.tools import ToolMissingError, find_own_program
from weir_tests.topo.runner import Runner


@pytest.mark.parametrize(
    ("port", "argument"),
    [
        (SwitchPort(1, "weir1"), "1=weir1"),
        (SwitchPort(2, "weir2", delay_ns=10_000_000), "2=weir2,delay=10000000ns"),
        (
            SwitchPort(3, "weir3", 5_000_000, 1_000_000_000, 15_000, 256_000),
            "3=weir3,delay=5000000ns,rate=1000000000bit/s,burst=15000B,limit=256000B",
        ),
    ],
)
def test_port_is_given_in_exact_integers(port: SwitchPort, argument: str) -> None:
    assert port.argument() == argument


def test_burst_without_a_rate_is_refused() -> None:
    with pytest.raises(ValueError, match=r"port 1 \(weir1\) has a burst but no rate"):
        SwitchPort(1, "weir1", burst_bytes=1).argument()


def test_own_program_that_is_not_built_is_an_error_with_the_command() -> None:
    with pytest.raises(ToolMissingError, match=r"weir-nothing is neither in .* install it with: make setup"):
        find_own_program("weir-nothing")


def test_switch_serves_all_ports_and_leaves_its_counters(runner: Runner) -> None:
    _skip_without("weir-switch")
    stats = runner.result("switch_life")["stats"]
    assert [(port["port"], port["interface"]) for port in stats["ports"]] == [
        (1, "weir1"), (2, "weir2"), (3, "weir3"), (4, "weir4"),
    ]  # fmt: skip


def test_switch_on_a_missing_interface_is_an_error_with_its_message(runner: Runner) -> None:
    _skip_without("weir-switch")
    message = runner.result("switch_without_interface")["message"]
    assert message.startswith("weir-switch ended before it was ready")
    assert "weir77" in message


def test_collector_writes_its_files_when_stopped(runner: Runner) -> None:
    _skip_without("weir-collector")
    report = runner.result("collector_life")
    assert report["accounting"]["complete"] is True
    assert report["accounting"]["received"] == 0
    assert report["accounting"]["malformed"] == 1
    assert report["telemetry_exists"] is True


def _skip_without(program: str) -> None:
    try:
        find_own_program(program)
    except ToolMissingError as error:
        pytest.skip(str(error))
