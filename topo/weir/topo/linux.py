# SPDX-License-Identifier: Apache-2.0
"""System calls that Python 3.11 lacks: mount(2), setns(2), prctl(2), pidfd_getfd(2), sched_setattr(2)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

CLONE_NEWNET = 0x4000_0000
PR_SET_PDEATHSIG = 1
CPUCLOCK_SCHED = 2
"""The kind of a process's clock in clock_getcpuclockid(3): the time that the scheduler counts."""
# The same number on every architecture, like all system calls added since Linux 5.1.
SYS_PIDFD_GETFD = 438
SYS_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
SLICE_NS = 100_000
"""The shortest slice that the kernel allows."""
NETNS_FOLDER = Path("/run/netns")

_T = TypeVar("_T")
_libc = ctypes.CDLL(None, use_errno=True)


def mount(filesystem: str, target: str, options: str = "") -> None:
    """Mount a new instance of a file system (`tmpfs`, `sysfs`) over `target`.

    Not mount(8), which requires uid 0: an ordinary user keeps their uid in the sandbox. Raises OSError that
    names the target.
    """
    kind = filesystem.encode()
    if _libc.mount(kind, target.encode(), kind, 0, options.encode()) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot mount {filesystem}: {os.strerror(error)}", target)


def in_network_namespace(name: str | int, action: Callable[[], _T]) -> _T:
    """Run `action` in the network namespace `name`; returns its result or raises its exception.

    `name` may be a descriptor of the namespace.

    setns(2) moves a single thread, so a short-lived thread enters the namespace and the others do not. A
    socket created by `action` stays in that namespace, whichever thread uses it.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            path = Path(f"/proc/self/fd/{name}") if isinstance(name, int) else NETNS_FOLDER / name
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _libc.setns(handle, CLONE_NEWNET) != 0:
                    error = ctypes.get_errno()
                    message = f"cannot enter network namespace: {os.strerror(error)}"
                    raise OSError(error, message, str(path))
            finally:
                os.close(handle)
            results.append(action())
        except BaseException as error:  # raised below in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=enter, name=f"netns-{name}", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def duplicate_descriptor(pidfd: int, descriptor: int) -> int:
    """A duplicate of another process's file `descriptor` (pidfd_getfd(2)).

    Raises OSError, including ProcessLookupError and PermissionError.
    """
    duplicate = int(_libc.syscall(SYS_PIDFD_GETFD, pidfd, descriptor, 0))
    if duplicate < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot share descriptor {descriptor}: {os.strerror(error)}")
    return duplicate


def ask_for_short_slices() -> bool:
    """Set the scheduler's time slice of this process and its children to 0.1 ms; returns whether it worked.

    A process that wakes up then waits at most that long for another one, and not the default of 1 to 3 ms.
    sched_setattr(2) has this effect since Linux 6.12.
    """
    number, policy = SYS_SCHED_SETATTR.get(os.uname().machine), os.sched_getscheduler(0)
    if number is None or policy not in (os.SCHED_OTHER, os.SCHED_BATCH):
        return False
    # struct sched_attr: size, policy, flags, nice, priority, runtime (the slice, ns), deadline, period
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = struct.pack("=IIQiIQQQ", 48, policy, 0, nice, 0, SLICE_NS, 0, 0)
    return int(_libc.syscall(number, 0, ctypes.create_string_buffer(attributes, len(attributes)), 0)) == 0


def take_spare_time_only() -> None:
    """Run this process from now on only while no other process needs the processor (SCHED_IDLE, sched(7)).

    With autogroups, the kernel first schedules between whole sessions, so the session gets nice 19 too; call
    this in a process that leads a separate session.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):  # a kernel without autogroups
        Path("/proc/self/autogroup").write_text("19")


def processor_time_s(pid: int) -> float:
    """The processor time that a process has used, seconds; raises OSError when there is no such process."""
    return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)


def die_with_parent(parent_pid: int) -> None:
    """Let the kernel kill this process when its parent `parent_pid` ends, at once if it has already ended.

    Raises OSError.
    """
    if _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot follow the parent process: {os.strerror(error)}")
    if os.getppid() != parent_pid:  # it ended before the prctl
        os.kill(os.getpid(), signal.SIGKILL)
