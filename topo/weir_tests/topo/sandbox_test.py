# SPDX-License-Identifier: Apache-2.0
import contextlib
import errno
import json
import os
import pty
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weir.rundir.directory import is_held
from weir.topo.sandbox import explain_refusal
from weir_tests.topo.runner import Runner
from weir_tests.topo.scenarios import poll_until


def system_state() -> tuple[str, list[str], str]:
    """Interfaces, named network namespaces and mounts of the machine itself."""
    links = json.loads(subprocess.run(["ip", "-json", "link"], capture_output=True, check=True).stdout)
    named = Path("/run/netns")
    namespaces = sorted(path.name for path in named.iterdir()) if named.exists() else []
    return (str(sorted(link["ifname"] for link in links)), namespaces, Path("/proc/self/mounts").read_text())


def namespaces_in_use() -> set[int]:
    """Inodes of the network namespaces of all processes."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(link.stat().st_ino)
    return found


def test_exit_code_of_the_program_is_passed_through(any_runner: Runner) -> None:
    assert any_runner.run("describe").returncode == 7


def test_program_keeps_its_user_and_sees_only_a_loopback(any_runner: Runner) -> None:
    done = any_runner.run("describe")
    report = any_runner.report()
    assert report["uid"] == (65534 if any_runner.prefix else os.geteuid()), done.stderr
    assert report["interfaces"] == ["lo"]
    assert report["run"] == []
    assert report["stdin"] == ""
    assert report["pid"] < 100  # in a new PID namespace


def test_unhandled_exception_ends_with_code_1_and_its_traceback(runner: Runner) -> None:
    done = runner.run("crash")
    assert done.returncode == 1
    assert "ValueError: a bug in the program" in done.stderr


def test_program_killed_by_a_signal_gives_128_and_its_number(runner: Runner) -> None:
    assert runner.run("die").returncode == 128 + 9


def test_process_1_collects_orphans(runner: Runner) -> None:
    assert runner.result("orphans") == {"collected": True}


def test_nothing_is_left_after_a_normal_end(any_runner: Runner) -> None:
    before = system_state()
    any_runner.run("describe")
    assert any_runner.processes() == []
    assert system_state() == before


class Started:
    """A scenario that has printed that it is ready."""

    def __init__(self, runner: Runner, scenario: str, grace_s: float = 30.0) -> None:
        self.before = system_state()
        self.runner = runner
        self.process = subprocess.Popen(
            runner.command(scenario, grace_s),
            env=runner.environment(),
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.facts: dict[str, Any] = json.loads(line)

    def end(self) -> tuple[int, str]:
        _, complaint = self.process.communicate(timeout=60)
        return self.process.returncode, complaint

    def assert_nothing_left(self) -> None:
        namespaces = set(self.facts.get("namespaces", []))
        assert poll_until(lambda: not self.runner.processes()), self.runner.processes()
        assert poll_until(lambda: not namespaces & namespaces_in_use())
        assert system_state() == self.before


def sleeping(runner: Runner) -> int:
    return sum("sleep 100000" in process for process in runner.processes())


def test_the_checks_for_leftovers_see_a_running_sandbox(runner: Runner) -> None:
    started = Started(runner, "linger")
    # During exec (nsenter becomes sleep), the command line of a process is empty for a moment.
    assert poll_until(lambda: sleeping(runner) == 4), runner.processes()
    # The command line of nsenter contains sleep too, before it has entered the namespace.
    assert poll_until(lambda: set(started.facts["namespaces"]) <= namespaces_in_use())
    assert len(set(started.facts["namespaces"])) == 5
    started.process.terminate()
    started.end()
    started.assert_nothing_left()


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_signal_lets_the_program_finish_and_leaves_nothing(
    any_runner: Runner, number: signal.Signals, reason: str
) -> None:
    started = Started(any_runner, "linger")
    started.process.send_signal(number)
    code, complaint = started.end()
    assert code == 130, complaint
    assert any_runner.report()["reason"] == reason
    started.assert_nothing_left()


def test_kill_9_of_the_outer_process_lets_the_program_finish_and_leaves_nothing(any_runner: Runner) -> None:
    started = Started(any_runner, "linger")
    started.process.kill()
    started.end()
    started.assert_nothing_left()
    assert any_runner.report()["reason"] == "orphaned"


def test_a_sandbox_keeps_its_lock_after_kill_9_of_the_outer_process_until_its_end(any_runner: Runner) -> None:
    started = Started(any_runner, "linger")
    inner = [int(folder.name) for folder in any_runner.folders() if int(folder.name) != started.process.pid]
    for process in inner:
        os.kill(process, signal.SIGSTOP)
    started.process.kill()
    started.process.wait(60)
    held_after_kill = is_held(any_runner.folder)
    for process in inner:
        os.kill(process, signal.SIGCONT)
    started.end()
    assert held_after_kill
    started.assert_nothing_left()
    assert not is_held(any_runner.folder)


def test_processes_that_a_program_starts_do_not_inherit_its_lock(runner: Runner) -> None:
    started = Started(runner, "linger")
    assert poll_until(lambda: sleeping(runner) == 4), runner.processes()
    holders = {
        (folder / "comm").read_text().strip()
        for folder in runner.folders()
        if str(runner.folder) in map(os.readlink, (folder / "fd").iterdir())
    }
    started.process.terminate()
    started.end()
    assert len(holders) > 1, "outer process, unshare, process 1 and program hold it"
    assert "sleep" not in holders


def test_kill_9_of_unshare_leaves_nothing(any_runner: Runner) -> None:
    started = Started(any_runner, "linger")
    children = Path(f"/proc/{started.process.pid}/task/{started.process.pid}/children").read_text().split()
    assert len(children) == 1
    os.kill(int(children[0]), signal.SIGKILL)
    code, _ = started.end()
    assert code == 128 + 9
    started.assert_nothing_left()


def test_uncaught_interruption_is_exit_code_130_and_one_line(runner: Runner) -> None:
    started = Started(runner, "let_through")
    started.process.send_signal(signal.SIGINT)
    code, complaint = started.end()
    assert code == 130
    assert "stopped early (interrupted)" in complaint
    assert "Traceback" not in complaint


def test_program_that_does_not_stop_is_killed_after_the_grace_period(runner: Runner) -> None:
    started = Started(runner, "hang", grace_s=0.2)
    started.process.send_signal(signal.SIGTERM)
    code, complaint = started.end()
    assert code == 128 + 9
    assert "did not stop within 0.2 s" in complaint
    started.assert_nothing_left()


def test_program_that_does_not_stop_ends_after_kill_9_of_the_outer_process(runner: Runner) -> None:
    started = Started(runner, "hang", grace_s=0.2)
    started.process.kill()
    started.end()
    started.assert_nothing_left()


def test_second_signal_kills_at_once(runner: Runner) -> None:
    started = Started(runner, "hang", grace_s=1000.0)
    started.process.send_signal(signal.SIGINT)
    assert started.process.stderr is not None
    while "press Ctrl-C again" not in started.process.stderr.readline():
        assert started.process.poll() is None
    started.process.send_signal(signal.SIGINT)
    code, _ = started.end()
    assert code == 128 + 9
    started.assert_nothing_left()


def start_in_terminal(runner: Runner, scenario: str) -> tuple[int, int]:
    """Process id and terminal of a scenario that has printed that it is ready."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir("/")
        command = runner.command(scenario)
        os.execve(command[0], command, runner.environment())
    # Wait for the whole line: closing the terminal during its write would make the write fail.
    read_terminal_until(terminal, lambda text: '"ready"' in text and text.endswith("\n"))
    return child, terminal


def test_second_hangup_does_not_kill(runner: Runner) -> None:
    started = Started(runner, "hang", grace_s=1.0)
    started.process.send_signal(signal.SIGHUP)
    assert poll_until(lambda: not hangup_is_pending(started.process.pid))
    started.process.send_signal(signal.SIGHUP)
    code, complaint = started.end()
    assert code == 128 + 9
    assert "did not stop within 1 s" in complaint  # it was not killed at once


def hangup_is_pending(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    pending = int(status.split("ShdPnd:")[1].split()[0], 16)
    return bool(pending >> (signal.SIGHUP - 1) & 1)


def test_ctrl_c_in_a_terminal_lets_the_program_finish_and_leaves_nothing(runner: Runner) -> None:
    before = system_state()
    child, terminal = start_in_terminal(runner, "linger")
    os.write(terminal, b"\x03")
    text = read_terminal_until(terminal, lambda text: False)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130, text
    assert "press Ctrl-C again to kill" in text
    assert runner.report()["reason"] == "interrupted"
    assert poll_until(lambda: not runner.processes())
    assert system_state() == before


def test_closed_terminal_lets_the_program_finish_and_leaves_nothing(runner: Runner) -> None:
    before = system_state()
    child, terminal = start_in_terminal(runner, "linger")
    os.close(terminal)
    os.waitpid(child, 0)
    assert runner.report()["reason"] == "terminated"
    assert poll_until(lambda: not runner.processes())
    assert system_state() == before


def test_signal_sent_to_the_program_itself_is_a_stop_too(runner: Runner) -> None:
    assert runner.run("stop_itself").returncode == 130
    assert runner.report()["reason"] == "terminated"


def read_terminal_until(terminal: int, enough: Callable[[str], bool]) -> str:
    """The output on the terminal until it is `enough`, or until no process has the terminal open."""
    text = ""
    while not enough(text):
        readable, _, _ = select.select([terminal], [], [], 60)
        assert readable, f"nothing more within a minute after: {text}"
        try:
            text += os.read(terminal, 4096).decode()
        except OSError as error:
            if error.errno != errno.EIO:  # end of file of a terminal on Linux
                raise
            break
    return text


@pytest.mark.parametrize(
    ("key", "value", "command"),
    [
        ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
    ],
)
def test_refusal_names_the_setting_and_the_command_that_fixes_it(
    tmp_path: Path, key: str, value: str, command: str
) -> None:
    setting = tmp_path / key
    setting.parent.mkdir()
    setting.write_text(f"{value}\n")
    text = explain_refusal("unshare: unshare failed: Operation not permitted", tmp_path)
    assert "Operation not permitted" in text
    assert text.endswith(command)


def test_refusal_without_a_setting_points_at_the_container(tmp_path: Path) -> None:
    assert "--privileged" in explain_refusal("unshare: unshare failed: Operation not permitted", tmp_path)
