# SPDX-License-Identifier: Apache-2.0
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from weir.topo.process import LoggedProcess, ProcessError, run_tool
from weir.topo.program import DiskFullError
from weir.topo.stop import Interrupted, StopToken


def python(name: str, program: str, folder: Path) -> LoggedProcess:
    return LoggedProcess(name, [sys.executable, "-u", "-c", program], folder / "log" / f"{name}.log")


def test_lines_are_waited_for_in_order_and_logged(tmp_path: Path) -> None:
    program = "import signal, sys; print('port 1'); print('port 2', file=sys.stderr); signal.pause()"
    process = python("talker", program, tmp_path)
    assert process.wait_line(r"port (\d)", 30).group(1) == "1"
    assert process.wait_line(r"port (\d)", 30).group(1) == "2"
    assert process.stop() == -signal.SIGTERM
    assert process.log.read_text() == "port 1\nport 2\n"


def test_process_that_ends_before_it_is_ready_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    process = python("loser", "import sys; sys.exit('no such interface: weir9')", tmp_path)
    with pytest.raises(ProcessError) as caught:
        process.wait_line("ready", 30)
    text = str(caught.value)
    assert text.startswith("loser ended before it was ready (exit code 1)")
    assert str(process.log) in text
    assert text.endswith("no such interface: weir9")


def test_process_that_is_not_ready_in_time_is_an_error(tmp_path: Path) -> None:
    process = python("mute", "import signal; print('starting'); signal.pause()", tmp_path)
    process.wait_line("starting", 30)
    with pytest.raises(ProcessError, match=r"mute did not say /ready/ within 0\.05 s"):
        process.wait_line("ready", 0.05)
    assert process.stop() == -signal.SIGTERM


def test_waiting_for_a_line_ends_when_told_to_stop(tmp_path: Path) -> None:
    process = python("mute", "import signal; print('starting'); signal.pause()", tmp_path)
    token = StopToken()
    process.wait_line("starting", 30)
    threading.Thread(target=token.stop, args=("interrupted",)).start()
    with pytest.raises(Interrupted):
        process.wait_line("never said", 30, token)
    process.stop()


def test_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf')\n"
        "while True: signal.pause()"
    )
    process = python("deaf", program, tmp_path)
    process.wait_line("deaf", 30)
    assert process.stop(grace_s=0.05) == -signal.SIGKILL
    assert process.stop() == -signal.SIGKILL  # can be called again


def test_unexpected_end_is_noticed(tmp_path: Path) -> None:
    process = python("quitter", "print('bye')", tmp_path)
    with pytest.raises(ProcessError, match="before it was ready"):
        process.wait_line("never said", 30)
    with pytest.raises(ProcessError, match=r"quitter ended unexpectedly \(exit code 0\).*\nbye"):
        process.check_running()


def test_a_program_that_finds_a_full_disk_gives_one_line(tmp_path: Path) -> None:
    process = python("writer", "raise OSError(28, 'No space left on device', 'a.parquet')", tmp_path)
    process.wait()
    process.wait_output(30)
    line = r"writer ended unexpectedly \(exit code 1\); log: .*writer.log: No space left on device"
    with pytest.raises(DiskFullError) as failed:
        process.check_running()
    assert re.fullmatch(line, str(failed.value))


def test_program_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="ghost cannot be started"):
        LoggedProcess("ghost", [str(tmp_path / "nothing")], tmp_path / "ghost.log")


def test_tool_failure_carries_command_and_complaint() -> None:
    with pytest.raises(ProcessError, match=r"`ip link show nosuchlink` failed \(1\): .*does not exist"):
        run_tool("ip", "link", "show", "nosuchlink")


def test_a_full_disk_takes_the_log_and_not_the_lines_that_are_awaited() -> None:
    # Every write to /dev/full fails as on a full disk.
    process = LoggedProcess("talker", ["sh", "-c", "echo one; echo two; read never"], Path("/dev/full"))
    try:
        process.wait_line("one", 20)
        process.wait_line("two", 20)
    finally:
        assert process.stop() is not None
