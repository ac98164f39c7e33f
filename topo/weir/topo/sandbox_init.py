# SPDX-License-Identifier: Apache-2.0
"""Process 1 of the sandbox: sets the scene, starts the real program as its child, and reaps.

It is a process of its own, apart from the program, so that waiting for any child (which process 1 must do)
cannot steal exit codes from the program's own `subprocess` objects, and so that a deadline holds even when
the program hangs. When process 1 of a PID namespace ends, the kernel kills everything in that namespace.
"""

import os
import runpy
import select
import signal
import sys
import time

from weir.topo.linux import ask_for_short_slices, mount
from weir.topo.process import run_tool

# One byte each, from the outer process to process 1, and on to the program.
INTERRUPT = b"I"
TERMINATE = b"T"
KILL = b"K"

CONTROL_VARIABLE = "WEIR_SANDBOX_CONTROL_FD"
EXIT_KILLED = 128 + signal.SIGKILL

_SIGNALS = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Run `MODULE ARGS…` as the sandbox's program. argv: CONTROL_FD GRACE_S MODULE ARGS…"""
    control = int(sys.argv[1])
    grace_s = float(sys.argv[2])
    module, arguments = sys.argv[3], sys.argv[4:]
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
        ask_for_short_slices()  # switch, senders and captures wait for each other all the time
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        return
    os.close(to_program_read)
    # os._exit: the buffers and exit handlers belong to the program, not to this fork's parent.
    os._exit(_supervise(program, control, to_program_write, wake_read, grace_s))


def _prepare() -> None:
    # `ip netns` keeps its handles in /run/netns, which an ordinary user cannot create; a private /run can
    # hold them and disappears with the sandbox. A new sysfs shows this sandbox's interfaces, not the host's.
    mount("tmpfs", "/run", "mode=0755")
    mount("sysfs", "/sys")
    run_tool("ip", "link", "set", "lo", "up")


def _supervise(program: int, control: int, to_program: int, wake: int, grace_s: float) -> int:
    """Reap children and pass stop requests on until the program has ended; return its exit code."""
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
                # The outer process is gone. Closing our end tells the program, which sees the same EOF.
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
            _complain(message)
            return EXIT_KILLED


def _forward(to_program: int, requests: bytes) -> None:
    try:
        os.write(to_program, requests)
    except BrokenPipeError:
        # The program never asked for stop requests (no `inside`) or is ending; the deadline covers both.
        return


def _complain(message: str) -> None:
    try:
        os.write(2, message.encode())
    except OSError:
        # The terminal or pipe went away with the outer process: nobody is left to read it.
        return


def _reap(program: int) -> int | None:
    """Collect every dead child; the program's exit code (128 + n after signal n) when it is among them."""
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
