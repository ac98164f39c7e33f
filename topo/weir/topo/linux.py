# SPDX-License-Identifier: Apache-2.0
"""Linux calls that Python 3.11 lacks: mount(2), setns(2), prctl(2), pidfd_getfd(2), and what uses them."""

import contextlib
import ctypes
import os
import signal
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

CLONE_NEWNET = 0x4000_0000
PR_SET_PDEATHSIG = 1
# One number on every architecture, as all calls since 5.1 have.
SYS_PIDFD_GETFD = 438
SYS_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
SLICE_NS = 100_000
"""The shortest slice that the kernel gives."""
NETNS_FOLDER = Path("/run/netns")

_T = TypeVar("_T")
_libc = ctypes.CDLL(None, use_errno=True)


def mount(filesystem: str, target: str, options: str = "") -> None:
    """Mount a new instance of a file system (`tmpfs`, `sysfs`) over `target`.

    mount(8) would refuse: it wants uid 0, and an ordinary user stays what they are in the sandbox.
    Raises OSError that names the target.
    """
    kind = filesystem.encode()
    if _libc.mount(kind, target.encode(), kind, 0, options.encode()) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot mount {filesystem}: {os.strerror(error)}", target)


def in_network_namespace(name: str, action: Callable[[], _T]) -> _T:
    """Run `action` in the network namespace `name`; its result or exception becomes the caller's.

    setns(2) moves one thread, so a short-lived thread enters and the rest of the program stays where it is.
    A socket made by `action` belongs to that namespace for good, wherever it is used afterwards.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            handle = os.open(NETNS_FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _libc.setns(handle, CLONE_NEWNET) != 0:
                    error = ctypes.get_errno()
                    message = f"cannot enter network namespace: {os.strerror(error)}"
                    raise OSError(error, message, str(NETNS_FOLDER / name))
            finally:
                os.close(handle)
            results.append(action())
        except BaseException as error:  # handed to the caller below, whatever it is
            errors.append(error)

    thread = threading.Thread(target=enter, name=f"netns-{name}", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def duplicate_descriptor(pidfd: int, descriptor: int) -> int:
    """Our own descriptor of what another process has open as `descriptor` (pidfd_getfd(2)).

    Raises OSError, ProcessLookupError and PermissionError among them.
    """
    duplicate = int(_libc.syscall(SYS_PIDFD_GETFD, pidfd, descriptor, 0))
    if duplicate < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot share descriptor {descriptor}: {os.strerror(error)}")
    return duplicate


def ask_for_short_slices() -> bool:
    """Have this process, and all that it starts, take turns on a processor in tenths of a millisecond.

    Whoever has just been woken then waits no longer than that for the others; by default it is one to three
    milliseconds. sched_setattr(2), honoured since Linux 6.12; whether this kernel took it.
    """
    number, policy = SYS_SCHED_SETATTR.get(os.uname().machine), os.sched_getscheduler(0)
    if number is None or policy not in (os.SCHED_OTHER, os.SCHED_BATCH):
        return False
    # struct sched_attr: size, policy, flags, nice, priority, runtime (the slice, ns), deadline, period
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = struct.pack("=IIQiIQQQ", 48, policy, 0, nice, 0, SLICE_NS, 0, 0)
    return int(_libc.syscall(number, 0, ctypes.create_string_buffer(attributes, len(attributes)), 0)) == 0


def take_spare_time_only() -> None:
    """Run this process, for the rest of its life, only while nobody else wants the processor (sched(7)).

    Where the kernel schedules sessions as groups, it puts the groups first, so ours has to stand back too;
    call this in a process that leads a session of its own.
    """
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):  # a kernel without such groups
        Path("/proc/self/autogroup").write_text("19")


def die_with_parent(parent_pid: int) -> None:
    """Let the kernel kill this process when `parent_pid`, which started it, ends; at once if it has.

    Raises OSError.
    """
    if _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot follow the parent process: {os.strerror(error)}")
    if os.getppid() != parent_pid:  # it ended before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)
