# SPDX-License-Identifier: Apache-2.0
"""Captures a host's traffic with tcpdump, and ends it only when every packet seen is in the file.

tcpdump reads the kernel's ring in blocks that may be up to a second old, and on SIGINT discards unread ones.
So `stop` first requests the counters (SIGUSR1) until all packets that the kernel has seen are written, and
then ends tcpdump.
"""

import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from weir.rundir.whole_files import part_of
from weir.topo.hosts import Fetched, Hosts
from weir.topo.program import ProcessError
from weir.topo.sandbox_init import GUEST_VARIABLE
from weir.topo.stop import StopToken
from weir.topo.tools import find_tool

# Ethernet, IPv4 and TCP headers with all options need 14 + 20 + 60 bytes; the rest is payload.
DEFAULT_SNAP_BYTES = 128
DEFAULT_BUFFER_BYTES = 32 * 1024 * 1024
_GUEST_BUFFER_BYTES = 1 << 20
_READY_S = 10.0
_DRAIN_S = 10.0
_DRAIN_POLL_S = 0.02
_COUNTERS = re.compile(
    r"(?P<captured>\d+) packets? captured, (?P<received>\d+) packets? received by filter, "
    r"(?P<dropped>\d+) packets? dropped by kernel"
)


@dataclass(frozen=True)
class CaptureResult:
    """The counters of one capture, which is complete if `lost` is 0.

    `seen` is the kernel's count at the call of `stop`; a packet that arrives after it may be in the file or
    not, and is not counted as lost.
    """

    host: str
    path: Path
    captured: int
    seen: int
    dropped_by_kernel: int
    fetched: Fetched | None = None
    """How it came, if it was made on another machine."""

    @property
    def lost(self) -> int:
        """Packets that passed the interface before the stop and are not in the file."""
        return max(self.dropped_by_kernel, self.seen - self.captured)


class Capture:
    """tcpdump on one host's interface, writing a pcap with nanosecond time stamps (CLOCK_REALTIME).

    A context manager that always ends tcpdump. The file has the suffix `.part` until `stop` has completed.
    """

    def __init__(
        self,
        hosts: Hosts,
        host: str,
        path: Path,
        log_folder: Path,
        *,
        snap_bytes: int = DEFAULT_SNAP_BYTES,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        filter_expression: str = "",
        headers_only: bool = False,
    ) -> None:
        """Start tcpdump; call `wait_ready` before the first packet that matters.

        With `headers_only`, the payload of packets stays on another machine.
        """
        self.host = host
        self.path = path
        self._part = part_of(path)
        self._headers_only = headers_only
        path.parent.mkdir(parents=True, exist_ok=True)
        self._hosts = hosts
        interface = hosts.host(host).interface
        argv = ["tcpdump", "-n", "-i", interface, "--time-stamp-precision=nano"]
        time_stamps = hosts.time_stamps(host)
        if time_stamps is not None:
            argv += ["-j", time_stamps]
        argv += ["-s", str(snap_bytes), "-B", str(buffer_bytes // 1024)]
        owner_uid = 0
        if GUEST_VARIABLE in os.environ:
            # The run's folder is the user's, and a file in it cannot be made root's, which tcpdump would try.
            owner = path.parent.stat()
            owner_uid = owner.st_uid
            # For root too, so that its run is the same.
            argv = [*_as_user(owner_uid, owner.st_gid), *_buffered(argv, self._part)]
        else:
            argv += ["-w", hosts.output(host, self._part)]
        if hosts.is_root(host) and owner_uid == 0:
            # As root, tcpdump would switch to user `tcpdump`, who may not write to the run's folder.
            argv += ["-Z", "root"]
        if filter_expression:
            argv.append(filter_expression)
        self._process = hosts.start(host, f"tcpdump of {host}", argv, log_folder / f"tcpdump-{host}.log")

    def wait_ready(self, stop: StopToken | None = None) -> None:
        """Wait until packets are being captured. Raises ProcessError or Interrupted."""
        self._process.wait_line("listening on", _READY_S, stop)

    def check_running(self) -> None:
        """Raise ProcessError if tcpdump has ended by itself, for example because of a full disk."""
        self._process.check_running()

    def stop(self) -> CaptureResult:
        """End the capture when all packets seen so far are written, and give the file its final name.

        Call it after the traffic has ended (`Testbed.silence`): packets that arrive meanwhile may be missing.
        Raises ProcessError.
        """
        self._process.check_running()
        give_up = time.monotonic() + _DRAIN_S
        captured, seen, dropped = self._counters()
        while captured + dropped < seen and time.monotonic() < give_up:
            # The kernel passes a block to tcpdump at most a second after its first packet, and gives other
            # processes no event to wait for.
            time.sleep(_DRAIN_POLL_S)
            captured, _, dropped = self._counters()
        self._process.send_signal(signal.SIGINT)
        captured, _, dropped = [self._final_count(what) for what in _FINAL]
        code = self._process.stop(signal.SIGINT)
        if code != 0:
            raise self._process.error(f"ended with exit code {code}")
        fetched = self._hosts.fetch(self.host, self._part, headers_only=self._headers_only)
        self._part.rename(self.path)
        return CaptureResult(self.host, self.path, captured, seen, dropped, fetched)

    def _counters(self) -> tuple[int, int, int]:
        self._process.send_signal(signal.SIGUSR1)
        return parse_counters(self._process.wait_line(_COUNTERS.pattern, _DRAIN_S).group())

    def _final_count(self, what: str) -> int:
        return int(self._process.wait_line(rf"(\d+) packets? {what}", _DRAIN_S).group(1))

    def __enter__(self) -> Self:
        """Do nothing: the constructor has started tcpdump."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End tcpdump if `stop` has not; the unfinished file keeps the suffix `.part`."""
        self._process.stop(signal.SIGINT)


def _as_user(uid: int, gid: int) -> list[str]:
    """The command that runs another one as a user who may capture."""
    capabilities = "+net_raw,+net_admin"
    return [
        "setpriv",
        f"--reuid={uid}",
        f"--regid={gid}",
        "--clear-groups",
        f"--inh-caps={capabilities}",
        f"--ambient-caps={capabilities}",
        "--",
    ]


def _buffered(argv: list[str], path: Path) -> list[str]:
    """The command of a tcpdump that writes a megabyte at a time, as each system call of a guest takes long.

    tcpdump has no option for that, and stdbuf(1) sets the buffer of stdout only.
    """
    to_path = ["/bin/sh", "-c", 'exec "$@" >"$0"', str(path)]
    tcpdump = [find_tool(argv[0]), *argv[1:], "-w", "-"]
    return [*to_path, find_tool("stdbuf"), f"--output={_GUEST_BUFFER_BYTES}", *tcpdump]


_FINAL = ("captured", "received by filter", "dropped by kernel")


def parse_counters(line: str) -> tuple[int, int, int]:
    """(captured, received by filter, dropped by kernel) from tcpdump's answer to SIGUSR1."""
    match = _COUNTERS.search(line)
    if match is None:
        raise ProcessError(f"tcpdump's counters cannot be read from {line!r}")
    return int(match["captured"]), int(match["received"]), int(match["dropped"])
