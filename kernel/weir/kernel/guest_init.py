# SPDX-License-Identifier: Apache-2.0
"""The first process of a guest: prepares the system, runs one program, reports, and powers the guest off.

Its argument is the path of a job (JSON, see `weir.kernel.guest.GuestJob`). The host's root is read-only; only
the job's folder is writable. Consoles: 0 is the kernel's, 1 the program's stderr, 2 its stdout, to which this
process adds lines of JSON: `{"virtual_s": 3.0}` each second, and `{"exit": 0}` at the end.

Runs without the package (`python -S -E`), so it imports only the standard library.
"""

import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Any

CONTROL = 9
"""Descriptor of a pipe that stays open as long as the guest lives, for programs that watch one."""
TICK_S = 1.0

_POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF of reboot(2)
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_ERRORS, _LINES = "/dev/tty1", "/dev/tty2"
_PROCESSORS = "/sys/devices/system/cpu"
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Run the job of the argument."""
    if os.getpid() != 1:  # the power-off would be the host's
        sys.exit("this is the first process of a guest")
    _mount("proc", "/proc")
    if "User Mode Linux" not in Path("/proc/cpuinfo").read_text():
        sys.exit("this is the first process of a guest")
    job = json.loads(Path(sys.argv[1]).read_text())
    # A guest that lacks memory ends at once and says so, instead of losing one of its processes.
    Path("/proc/sys/vm/panic_on_oom").write_text("1")
    _let_tcp_have_the_memory()
    # Waiting takes no virtual time, so no frame is dropped for it; by default a thousand may wait.
    Path("/proc/sys/net/core/netdev_max_backlog").write_text("100000")
    _prepare(job["folder"])
    lines = _terminal(_LINES)
    code = _run(job, lines)
    os.sync()
    _write(lines, {"exit": code})
    termios.tcdrain(lines)
    _libc.reboot(_POWER_OFF)


def _let_tcp_have_the_memory() -> None:
    """Let TCP have three quarters of the memory; by default it has one sixteenth.

    Beyond that it throws away what it has acknowledged, which no link does. See tcp_mem in tcp(7).
    """
    pages = os.sysconf("SC_PHYS_PAGES")
    limits = (pages // 2, pages * 5 // 8, pages * 3 // 4)
    Path("/proc/sys/net/ipv4/tcp_mem").write_text(" ".join(map(str, limits)))


def _prepare(folder: str) -> None:
    _mount("devtmpfs", "/dev")
    for made in ("/dev/pts", "/dev/shm"):
        Path(made).mkdir()
    _mount("devpts", "/dev/pts")
    _mount("tmpfs", "/dev/shm")
    for link, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        Path("/dev", link).symlink_to(f"/proc/self/{target}")
    _mount("sysfs", "/sys")
    _describe_processor()
    _mount("tmpfs", "/run", "mode=0755")
    Path("/run/tmp").mkdir()
    _mount("hostfs", folder, folder)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        _, flags = struct.unpack_from("16sh", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP).ljust(40, b"\0"))


def _describe_processor() -> None:
    """Give the frequency of the time-stamp counter, for which gRPC otherwise calibrates a clock.

    It would read the guest's clock for 63 to 255 ms of virtual time, up to a million times, and compare it
    with the counter, which is the host's, so that runs would differ. Any value will do.
    """
    _mount("tmpfs", _PROCESSORS)
    for name in ("online", "possible", "present"):
        Path(_PROCESSORS, name).write_text("0\n")
    frequency = Path(_PROCESSORS, "cpu0", "tsc_freq_khz")
    frequency.parent.mkdir()
    frequency.write_text("1000000\n")


def _run(job: dict[str, Any], lines: int) -> int:
    """Run the program to its end, with a line per second of virtual time; returns its exit code."""
    control, kept_open = os.pipe()
    os.dup2(control, CONTROL)
    os.set_inheritable(CONTROL, True)
    wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake_write)
    errors = _terminal(_ERRORS)
    null = os.open(os.devnull, os.O_RDONLY)
    program = os.posix_spawn(
        job["argv"][0],
        job["argv"],
        job["environment"],
        file_actions=[
            (os.POSIX_SPAWN_DUP2, null, 0),
            (os.POSIX_SPAWN_DUP2, lines, 1),
            (os.POSIX_SPAWN_DUP2, errors, 2),
        ],
        setsigdef=[signal.SIGCHLD],
    )
    due = time.monotonic() + TICK_S
    try:
        while True:
            if select.select([wake_read], [], [], max(0.0, due - time.monotonic()))[0]:
                os.read(wake_read, 4096)
                code = _reap(program)
                if code is not None:
                    return code
            else:
                _write(lines, {"virtual_s": round(time.monotonic(), 3)})
                due += TICK_S
    finally:
        os.close(kept_open)


def _reap(program: int) -> int | None:
    """Reap all ended children; returns the exit code of `program` (128 + n after signal n) once it ended."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code


def _terminal(path: str) -> int:
    """A console that passes on what is written to it as it is."""
    handle = os.open(path, os.O_RDWR | os.O_NOCTTY)
    attributes = termios.tcgetattr(handle)
    attributes[1] &= ~termios.OPOST
    attributes[3] &= ~(termios.ECHO | termios.ICANON | termios.ISIG)
    termios.tcsetattr(handle, termios.TCSANOW, attributes)
    return handle


def _write(lines: int, record: dict[str, Any]) -> None:
    os.write(lines, (json.dumps(record) + "\n").encode())


def _mount(filesystem: str, target: str, options: str = "") -> None:
    kind = filesystem.encode()
    if _libc.mount(kind, target.encode(), kind, 0, options.encode()) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"cannot mount {filesystem}: {os.strerror(error)}", target)


if __name__ == "__main__":
    main()
