# SPDX-License-Identifier: Apache-2.0
"""Process 1 of the sandbox: mounts, starts the program as its child, forwards stop requests, and reaps.

It is separate from the program for two reasons: process 1 must wait for any child, which would steal exit
codes from the program's `subprocess` objects; and its deadline holds even when the program hangs. When
process 1 of a PID namespace ends, the kernel kills everything in that namespace.
"""

import os
import runpy
import select
import signal
import sys
import time

from weir.topo.linux import ask_for_short_slices, mount
from weir.topo.process import run_tool

# One byte each, sent by the outer process to process 1, which forwards it to the program.
INTERRUPT = b"I"
TERMINATE = b"T"
KILL = b"K"

GUEST_VARIABLE = "WEIR_GUEST"
"""Set in a guest, where every program is root and the files belong to the user."""
CONTROL_VARIABLE = "WEIR_SANDBOX_CONTROL_FD"
PLAIN_VARIABLE = "WEIR_SANDBOX_PLAIN"
"""Set for a program without namespaces of its own."""
KEPT_OPEN_VARIABLE = "WEIR_SANDBOX_KEPT_OPEN_FDS"
"""Descriptors of locks, separated by commas: `unshare`, process 1 and the program keep them open."""
EXIT_KILLED = 128 + signal.SIGKILL

PRIVATE_FOLDER = "/run"
"""A sandbox has an empty one of its own, so nothing in it is seen or written by programs of a run."""

_SIGNALS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run `MODULE ARGS…` as the sandbox's program. argv: CONTROL_FD GRACE_S MODULE ARGS…"""
    control = int(sys.argv[1])
    grace_s = float(sys.argv[2])
    module, arguments = sys.argv[3], sys.argv[4:]
    _keep_to_itself()
    _prepare()
    to_program_read, to_program_write = os.pipe()
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for number in _SIGNALS:
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    program = os.fork()
    if program == 0:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for descriptor in (control, to_program_write, wake_read, wake_write):
            os.close(descriptor)
        os.environ[CONTROL_VARIABLE] = str(to_program_read)
        ask_for_short_slices()  # because switch, senders and captures constantly wait for each other
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    os.close(to_program_read)
    # os._exit, because buffers and exit handlers belong to the program, not to this parent process.
    os._exit(_supervise(program, control, to_program_write, wake_read, grace_s))


def run_plainly() -> None:
    """Run `MODULE ARGS…` without namespaces in this process. argv: CONTROL_FD GRACE_S MODULE ARGS…"""
    control, module, arguments = sys.argv[1], sys.argv[3], sys.argv[4:]
    _keep_to_itself()
    os.environ |= {CONTROL_VARIABLE: control, PLAIN_VARIABLE: "1"}
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _keep_to_itself() -> None:
    """Let no process that is started from here inherit the locks, which it could hold longer than the run."""
    for descriptor in filter(None, os.environ.pop(KEPT_OPEN_VARIABLE, "").split(",")):
        os.set_inheritable(int(descriptor), False)


def _prepare() -> None:
    # `ip netns` keeps its handles in /run/netns, which an ordinary user cannot create; a private /run holds
    # them and disappears with the sandbox. A new sysfs shows the sandbox's interfaces and not the host's.
    mount("tmpfs", PRIVATE_FOLDER, "mode=0755")
    mount("sysfs", "/sys")
    run_tool("ip", "link", "set", "lo", "up")


def _supervise(program: int, control: int, to_program: int, wake: int, grace_s: float) -> int:
    """Reap children and forward stop requests until the program ends; returns its exit code."""
    deadline: float | None = None
    watched = [control, wake]
    while True:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        readable, _, _ = select.select(watched, [], [], timeout)
        requests = b""
        if wake in readable:
            for number in os.read(wake, 4096):
                if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    requests += TERMINATE
            code = _reap(program)
            if code is not None:
                return code
        if control in readable:
            received = os.read(control, 16)
            if not received:
                # The outer process has exited. Closing this end lets the program see EOF too.
                watched.remove(control)
                os.close(to_program)
                deadline = deadline or time.monotonic() + grace_s
            requests += received
        if KILL in requests:
            return EXIT_KILLED
        if requests and control in watched:
            _forward(to_program, requests)
            deadline = deadline or time.monotonic() + grace_s
        if deadline is not None and time.monotonic() >= deadline:
            message = f"weir: the run did not stop within {grace_s:g} s and was killed\n"
            _write_stderr(message)
            return EXIT_KILLED


def _forward(to_program: int, requests: bytes) -> None:
    try:
        os.write(to_program, requests)
    except BrokenPipeError:
        # The program does not read stop requests (no `inside`), or is ending; the deadline covers both.
        return


def _write_stderr(message: str) -> None:
    try:
        os.write(2, message.encode())
    except OSError:
        # The terminal or pipe was closed with the outer process, so there is no reader.
        return


def _reap(program: int) -> int | None:
    """Reap all ended children; returns the program's exit code (128 + n after signal n) if it has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
