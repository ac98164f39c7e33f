# SPDX-License-Identifier: Apache-2.0
"""Runs a Python module in fresh namespaces, without root, and leaves nothing behind.

    weir run                (outer: the user's process; owns the write end of the control pipe)
      └─ unshare            (own session, so Ctrl-C in a terminal reaches only the outer process)
           └─ sandbox_init  (process 1 of the PID namespace; reads the control pipe)
                └─ module   (the program; `inside` hands it a StopToken)
                     └─ switch, collector, tcpdump, iperf3 …

The outer process requests a stop with a byte on the pipe. When it dies, for whatever reason, the pipe closes,
which means the same. Everything in the sandbox dies with process 1; network namespaces, interfaces and mounts
disappear with their last user. An ordinary user keeps their uid in the sandbox (with capabilities that are
valid only inside). Root of a user namespace gets a different uid: tcpdump drops root privileges, which fails
with a single mapped uid.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from weir.rundir.outputs import print_any_character
from weir.topo.sandbox_init import (
    CONTROL_VARIABLE,
    INTERRUPT,
    KEPT_OPEN_VARIABLE,
    KILL,
    PLAIN_VARIABLE,
    TERMINATE,
)
from weir.topo.stop import Interrupted, StopReason, StopToken
from weir.topo.tools import find_tool, search_path

INSIDE_VARIABLE = "WEIR_SANDBOX"
ORIGIN_VARIABLE = "WEIR_SANDBOX_ORIGIN_FD"
EXIT_INTERRUPTED = 128 + signal.SIGINT
STOPPING = "weir: stopping; press Ctrl-C again to kill"
# Time that process 1 has to act on a kill request.
_KILL_GRACE_S = 2.0

_NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_AS_USER = ("--user", "--map-current-user", "--keep-caps")
_AS_NOBODY = ("--user", "--map-user=65534", "--map-group=65534", "--keep-caps")
# What root has in a sandbox, where it is root of the machine unless there is a user namespace: for mounts,
# network namespaces, files and processes of other users, a change of user and root, priorities.
_KEPT = "-all," + ",".join(
    f"+{name}"
    for name in (
        *("chown", "dac_override", "fowner", "ipc_lock", "kill", "net_admin", "net_bind_service", "net_raw"),
        *("setgid", "setpcap", "setuid", "sys_admin", "sys_chroot", "sys_nice", "sys_ptrace", "sys_resource"),
    )
)
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from weir.topo.sandbox_init import main; main()"
)
_START_PLAIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from weir.topo.sandbox_init import run_plainly; run_plainly()"
)


class SandboxError(Exception):
    """Namespaces cannot be created on this system; the text says what to change."""


def run_in_sandbox(
    module: str,
    argv: list[str],
    *,
    grace_s: float = 20.0,
    announce_stop: bool = True,
    on_line: Callable[[str], None] | None = None,
    with_origin: bool = False,
    isolated: bool = True,
    kept_open: Sequence[int] = (),
) -> int:
    """Run `python -m module argv…` in fresh user, network, mount and PID namespaces; return its exit code.

    In the main thread, it handles SIGINT, SIGTERM and SIGHUP meanwhile. The first signal is forwarded as a
    stop request, after which the program has `grace_s` seconds; a second SIGINT or SIGTERM kills at once
    (exit code 137). Other threads cannot handle signals: there, the sandbox ends with this process. With
    `announce_stop`, a line on stderr says so on Ctrl-C; a program that draws on the terminal says it itself.

    stdin is empty, stderr is inherited, and stdout too unless `on_line` receives its lines. An exception of
    `on_line` stops the program, and is raised once that has ended. Raises SandboxError.

    With `with_origin` the program can enter the network namespace of this process (`origin`), which it needs
    to be root for. One that is not `isolated` is a plain child of this process, without namespaces.

    The descriptors `kept_open`, of locks, stay open in the sandbox until its last process has ended, even if
    this process is killed before. Processes that the program starts do not inherit them.
    """
    command = [sys.executable, "-c", _START_PLAIN]
    if isolated:
        inner = [find_tool("setpriv"), "--bounding-set", _KEPT, "--", sys.executable]
        command = [find_tool("unshare"), *_unshare_flags(), "--", *inner, "-c", _START]
    control_read, control_write = os.pipe()
    stopper = _Stopper(control_write, announce=announce_stop, grace_s=None if isolated else grace_s)
    # Before the process starts: a stop that comes meanwhile waits for it in the pipe.
    previous = {number: signal.signal(number, stopper) for number in _stop_signals()}
    try:
        command = [*command, json.dumps(sys.path), str(control_read), str(grace_s), module, *argv]
        process = _start(command, control_read, kept_open, piped=on_line is not None, with_origin=with_origin)
        stopper.process = process
        if on_line is not None:
            _read_lines(process, on_line, stopper)
        code = process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        stopper.close()
    return code if code >= 0 else 128 - code


def _start(
    command: list[str], control_read: int, kept_open: Sequence[int], *, piped: bool, with_origin: bool
) -> "subprocess.Popen[str]":
    """Start the sandbox's first process, and close what only that needs."""
    passed, environment = [control_read], dict(os.environ)
    environment.pop(ORIGIN_VARIABLE, None)
    environment[KEPT_OPEN_VARIABLE] = ",".join(map(str, kept_open))
    try:
        if with_origin:
            passed.append(os.open("/proc/self/ns/net", os.O_RDONLY))
            environment[ORIGIN_VARIABLE] = str(passed[-1])
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else None,
            pass_fds=[*passed, *kept_open],
            env=environment,
            start_new_session=True,
            text=True,
            errors="replace",  # a locale's bytes that are not those of this process
        )
    finally:
        for descriptor in passed:
            os.close(descriptor)


def _read_lines(
    process: "subprocess.Popen[str]", on_line: Callable[[str], None], stopper: "_Stopper"
) -> None:
    """Pass each line of the program's stdout to `on_line`, until its end."""
    assert process.stdout is not None
    with process.stdout as lines:
        try:
            for line in lines:
                on_line(line.rstrip("\n"))
        except BaseException:
            stopper(signal.SIGTERM, None)
            for _ in lines:  # a full pipe would block the program
                pass
            process.wait()
            raise


def _stop_signals() -> list[signal.Signals]:
    if threading.current_thread() is not threading.main_thread():
        return []
    wanted = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    # nohup and shells (for background jobs) ignore signals on purpose; keep ignoring them.
    return [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]


class _Stopper:
    """Signal handler of the outer process: first requests a stop, then kills."""

    def __init__(self, control: int, *, announce: bool, grace_s: float | None) -> None:
        """With `grace_s`, nobody but this process ends a program that does not stop."""
        self.process: subprocess.Popen[str] | None = None
        """The sandbox's first process, once it has started."""
        self._grace_s = grace_s
        self._control = control
        self._announce = announce
        self._requested = self._killing = False
        self._force: threading.Timer | None = None

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if not self._requested:
            self._requested = True
            if number == signal.SIGINT and self._announce:
                with contextlib.suppress(OSError):  # the terminal may be closed
                    os.write(2, f"\n{STOPPING}\n".encode())
            self._send(INTERRUPT if number == signal.SIGINT else TERMINATE)
            if self._grace_s is not None:
                self._kill_after(self._grace_s)
        elif not self._killing and number != signal.SIGHUP:
            # SIGHUP does not count: a closing terminal sends it twice, to the session leader and the
            # foreground group. On KILL process 1 ends at once, and all others before `unshare` returns.
            self._killing = True
            self._send(KILL)
            self._kill_after(_KILL_GRACE_S)

    def _kill_after(self, seconds: float) -> None:
        if self._force is not None:
            self._force.cancel()
        self._force = threading.Timer(seconds, self._end_process)
        self._force.daemon = True
        self._force.start()

    def _end_process(self) -> None:
        if self.process is not None:
            self.process.kill()

    def _send(self, request: bytes) -> None:
        try:
            os.write(self._control, request)
        except BrokenPipeError:
            # Process 1 is already ending; wait() is about to return.
            return

    def close(self) -> None:
        if self._force is not None:
            self._force.cancel()
        os.close(self._control)


def inside(main: Callable[[StopToken], int]) -> NoReturn:
    """Run the sandboxed program's `main` with its stop token and exit with what it returns.

    Call at the bottom of the module given to `run_in_sandbox`. An uncaught `Interrupted` becomes exit code
    130 (143 for SIGTERM) and one line on stderr.
    """
    control = os.environ.pop(CONTROL_VARIABLE, None)
    if control is None:
        sys.exit("weir: this module runs inside the sandbox only; start it with run_in_sandbox()")
    if os.environ.pop(PLAIN_VARIABLE, None) is None:
        os.environ[INSIDE_VARIABLE] = "1"
    print_any_character()
    token = StopToken()
    # A signal sent directly to this process is a stop request too. The handler itself does nothing: setting
    # the lock-protected token in it could deadlock with the code that it interrupts.
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for descriptor, translate in ((int(control), _reason_of_request), (wake_read, _reason_of_signal)):
        os.set_inheritable(descriptor, False)
        threading.Thread(
            target=_watch, args=(descriptor, translate, token), name="stop-watch", daemon=True
        ).start()
    try:
        code = main(token)
    except Interrupted as stop:
        _print_error(f"weir: {stop}")
        code = EXIT_INTERRUPTED if stop.reason == "interrupted" else 128 + signal.SIGTERM
    sys.exit(code)


def is_inside() -> bool:
    """Whether this process runs in a sandbox, where creating interfaces and namespaces is safe."""
    return os.environ.get(INSIDE_VARIABLE) == "1"


def origin() -> int:
    """A descriptor of the network namespace that the sandbox was started from. Raises SandboxError."""
    descriptor = os.environ.get(ORIGIN_VARIABLE)
    if descriptor is None:
        raise SandboxError("the network that the sandbox was started from is not open to it")
    return int(descriptor)


def _reason_of_request(request: int) -> StopReason | None:
    return "interrupted" if request == INTERRUPT[0] else "terminated"


def _reason_of_signal(number: int) -> StopReason | None:
    if number == signal.SIGINT:
        return "interrupted"
    return "terminated" if number in (signal.SIGTERM, signal.SIGHUP) else None


def _watch(descriptor: int, translate: Callable[[int], StopReason | None], token: StopToken) -> None:
    os.set_blocking(descriptor, True)
    while received := os.read(descriptor, 64):
        for byte in received:
            reason = translate(byte)
            if reason is not None:
                token.stop(reason)
    _silence_dead_outputs()
    token.stop("orphaned")


def _silence_dead_outputs() -> None:
    """Redirect stdout and stderr to /dev/null if their reader has exited, so that clean-up can print."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if os.isatty(descriptor) or _has_no_reader(descriptor):
            os.dup2(null, descriptor)
    os.close(null)


def _has_no_reader(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, 0)
    return bool(poller.poll(0))


def _print_error(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def sandbox_problem() -> str | None:
    """The reason why this user cannot create sandboxes, with the command that fixes it; None if they can."""
    try:
        _unshare_flags()
    except SandboxError as error:
        return str(error)
    return None


def _unshare_flags() -> tuple[str, ...]:
    """Flags of unshare(1) that work here: for root without a user namespace, for others with one."""
    choices: list[tuple[str, ...]] = [(*_AS_USER, *_NAMESPACES)]
    if os.geteuid() == 0:
        # Root in a container may lack CAP_SYS_ADMIN but still be allowed to create a user namespace.
        choices = [(*_AS_NOBODY, *_NAMESPACES)]
        if _may_set_groups():
            choices.insert(0, _NAMESPACES)
    complaint = ""
    for flags in choices:
        probe = subprocess.run(
            [find_tool("unshare"), *flags, "--", "true"],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": search_path()},
            capture_output=True,
            text=True,
            check=False,
        )
        if probe.returncode == 0:
            return flags
        complaint = probe.stderr.strip()
    raise SandboxError(explain_refusal(complaint, Path("/proc/sys")))


def _may_set_groups() -> bool:
    """False in user namespaces with one mapped uid, as ordinary users create them (user_namespaces(7))."""
    try:
        return Path("/proc/self/setgroups").read_text().strip() != "deny"
    except FileNotFoundError:
        return True  # a kernel without user namespaces


def explain_refusal(complaint: str, sysctls: Path) -> str:
    """The reason why `unshare` failed with `complaint`, judging by the kernel's settings under `sysctls`."""
    said = f"cannot create network namespaces: {complaint or 'unshare failed without a message'}. "
    for key, forbids, allows in (
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
        ("user/max_user_namespaces", "0", "15000"),
        ("user/max_net_namespaces", "0", "15000"),
    ):
        setting = sysctls / key
        if setting.exists() and setting.read_text().strip() == forbids:
            name = key.replace("/", ".")
            return f"{said}{name} is {forbids}; allow it with: sudo sysctl -w {name}={allows}"
    return (
        f"{said}No kernel setting explains it, so a container or security policy probably forbids it; "
        "in Docker, run the container with: --privileged"
    )
