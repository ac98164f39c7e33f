# SPDX-License-Identifier: Apache-2.0
"""Reads the state of TCP sockets from the kernel over netlink (sock_diag(7), INET_DIAG_INFO).

pyroute2's DiagSocket is not used: it opens its socket in a separate thread, hence in the wrong network
namespace, and decodes field by field, which costs several times as much per sample. Layouts are those of
linux/inet_diag.h and linux/tcp.h, whose fields never move; newer kernels append. `run` samples on a host of a
testbed, with its Python.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR = 2
_NLM_F_REQUEST = 1

_INET_DIAG_INFO = 2
_INET_DIAG_VEGASINFO = 3  # requests the state of the congestion control, also of BBR
_INET_DIAG_CONG = 4
_INET_DIAG_BBRINFO = 16

_STATES: Final = {
    1: "ESTABLISHED",
    2: "SYN_SENT",
    3: "SYN_RECV",
    4: "FIN_WAIT1",
    5: "FIN_WAIT2",
    6: "TIME_WAIT",
    7: "CLOSE",
    8: "CLOSE_WAIT",
    9: "LAST_ACK",
    10: "LISTEN",
    11: "CLOSING",
}
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
# inet_diag_req_v2: family, protocol, extensions, states; ports, addresses (IPv4's padded), interface, cookie
_REQUEST = struct.Struct("=BBBxI4s16s16sIQ")
_ALL_STATES = 0xFFFF_FFFF
_NO_COOKIE = 0xFFFF_FFFF_FFFF_FFFF
_PORTS = struct.Struct("!HH")
_MESSAGE = struct.Struct("!B3xHH16s16s")  # inet_diag_msg up to the peer's address; ports big-endian
_MESSAGE_BYTES = 72
_IPV4_BYTES = 4
_ANSWER_BYTES = 1 << 16
_ATTRIBUTE = struct.Struct("=HH")
# struct tcp_info: 8 flag bytes, then the fields named in TcpInfo below.
_TCP_INFO = struct.Struct("=8B24I4Q6I4Q2I2Q")
# struct tcp_bbr_info: bandwidth in bytes/s as two words, minimum RTT in µs, two gains
_BBR_INFO = struct.Struct("=5I")
# appended by BBRv3: maximum and short-term bandwidth in two words each, mode, phase, padding, version,
# short-term and long-term bound of inflight, extra acked
_BBR3_INFO = struct.Struct("=4IxBxB3I")
_BBR_UNIT = 256
_BBR_PHASES: Final = {
    1: "STARTUP",
    2: "DRAIN",
    3: "PROBE_RTT",
    4: "PROBE_UP",
    5: "PROBE_DOWN",
    6: "PROBE_CRUISE",
    7: "PROBE_REFILL",
}
"""The draft's names of the phases in linux/inet_diag.h of BBRv3 (enum tcp_bbr_phase)."""
_UNLIMITED_64 = (1 << 64) - 1
_UNSET_32 = (1 << 32) - 1
_INFINITE_SSTHRESH = 0x7FFF_FFFF

# Source address (packed), source port, destination address, destination port.
Connection = tuple[bytes, int, bytes, int]


class TcpDiagError(Exception):
    """The kernel refused, or answered with something other than a sock_diag message."""


@dataclass(frozen=True)
class TcpInfo:
    """The state of one socket. Rates in bit/s, times in ns, cwnd and ssthresh in segments.

    None means: no sample yet (RTT), unlimited (pacing rate), never set (ssthresh) or not BBR (bbr_…). From
    `bbr_version` on, fields are of BBRv3, by the names of draft-ietf-ccwg-bbr; an unset bound is None.
    """

    connection: Connection
    state: str
    congestion_control: str | None
    rtt_ns: int | None
    min_rtt_ns: int | None
    cwnd: int
    ssthresh: int | None
    pacing_rate_bps: int | None
    delivery_rate_bps: int
    bytes_sent: int
    bytes_retrans: int
    bytes_acked: int
    delivered: int
    lost: int
    retrans_total: int
    unacked: int
    in_flight: int
    """Segments in flight as the sender counts them: sent − acknowledged − SACKed − lost + retransmitted."""
    segments_received: int
    bbr_bandwidth_bps: int | None
    bbr_min_rtt_ns: int | None
    bbr_pacing_gain: float | None
    """By which BBR multiplies its bandwidth estimate to pace, and its BDP for the window."""
    bbr_cwnd_gain: float | None
    bbr_version: int | None = None
    bbr_phase: str | None = None
    bbr_max_bw_bps: int | None = None
    bbr_bw_shortterm_bps: int | None = None
    bbr_inflight_shortterm: int | None = None
    bbr_inflight_longterm: int | None = None
    bbr_extra_acked: int | None = None


def request(connection: Connection) -> bytes:
    """The netlink message that requests one socket.

    One request per socket is cheaper than a dump, which walks the machine's hash table of all connections
    once per namespace; the size of that table grows with the machine's memory.
    """
    source, source_port, destination, destination_port = connection
    wanted = (_INET_DIAG_INFO, _INET_DIAG_VEGASINFO, _INET_DIAG_CONG)
    extensions = sum(1 << (extension - 1) for extension in wanted)
    ports = _PORTS.pack(source_port, destination_port)
    family = socket.AF_INET if len(source) == _IPV4_BYTES else socket.AF_INET6
    fixed = (family, socket.IPPROTO_TCP, extensions, _ALL_STATES)
    body = _REQUEST.pack(*fixed, ports, source, destination, 0, _NO_COOKIE)
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body


class TcpDiag:
    """A netlink socket for such requests, in the network namespace of the thread that creates it."""

    def __init__(self) -> None:
        """Open the socket."""
        # Python sets close-on-exec by default.
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        self._socket.settimeout(5.0)

    def sample(self, connections: Iterable[Connection]) -> list[TcpInfo]:
        """The state of each of these sockets that exists. Raises TcpDiagError or OSError."""
        found = []
        for connection in connections:
            self._socket.send(request(connection))
            info = parse_answer(self._socket.recv(_ANSWER_BYTES))
            if info is not None:
                found.append(info)
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def parse_answer(data: bytes) -> TcpInfo | None:
    """The socket in one answer; None if there is no such socket, or it is in TIME_WAIT."""
    if len(data) < _HEADER.size:
        raise TcpDiagError(f"answer of {len(data)} bytes, shorter than a netlink header")
    length, kind, _flags, _sequence, _port = _HEADER.unpack_from(data)
    body = _HEADER.size
    if kind == _NLMSG_ERROR and len(data) >= body + 4:
        (code,) = struct.unpack_from("=i", data, body)
        if code == -errno.ENOENT:
            return None
        raise TcpDiagError(f"the kernel does not show a TCP socket: {os.strerror(-code)}")
    if kind != _SOCK_DIAG_BY_FAMILY or not body + _MESSAGE_BYTES <= length <= len(data):
        raise TcpDiagError(f"answer of type {kind}, {length} bytes long in a datagram of {len(data)}")
    family, source_port, destination_port, source, destination = _MESSAGE.unpack_from(data, body)
    size = _IPV4_BYTES if family == socket.AF_INET else None
    connection = (source[:size], source_port, destination[:size], destination_port)
    attributes = dict(_attributes(data, body + _MESSAGE_BYTES, length))
    return _tcp_info(connection, data[body + 1], attributes)


def _attributes(data: bytes, offset: int, end: int) -> Iterator[tuple[int, bytes]]:
    while offset + _ATTRIBUTE.size <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size:
            raise TcpDiagError(f"netlink attribute of {length} bytes")
        yield kind, data[offset + _ATTRIBUTE.size : offset + length]
        offset += (length + 3) & ~3


def _tcp_info(connection: Connection, state: int, attributes: dict[int, bytes]) -> TcpInfo | None:
    """The decoded attributes; None for a socket in TIME_WAIT, which has no tcp_info."""
    raw = attributes.get(_INET_DIAG_INFO, b"")
    if len(raw) < _TCP_INFO.size:
        return None
    fields = _TCP_INFO.unpack_from(raw)
    words = fields[8:32]
    pacing_rate, _max_pacing_rate, bytes_acked, _bytes_received = fields[32:36]
    min_rtt_us = fields[39]
    delivery_rate = fields[42]
    delivered, _delivered_ce, bytes_sent, bytes_retrans = fields[46:50]
    rtt_us, ssthresh, cwnd = words[15], words[17], words[18]
    name = attributes.get(_INET_DIAG_CONG)
    bbr = attributes.get(_INET_DIAG_BBRINFO, b"")
    bandwidth, bbr_min_rtt_us, pacing_gain, cwnd_gain = _bbr_info(bbr)
    return TcpInfo(
        connection=connection,
        state=_STATES.get(state, str(state)),
        congestion_control=name.rstrip(b"\0").decode() if name is not None else None,
        rtt_ns=rtt_us * 1000 if rtt_us else None,
        min_rtt_ns=min_rtt_us * 1000 if min_rtt_us != _UNSET_32 else None,
        cwnd=cwnd,
        ssthresh=ssthresh if ssthresh < _INFINITE_SSTHRESH else None,
        pacing_rate_bps=pacing_rate * 8 if pacing_rate != _UNLIMITED_64 else None,
        delivery_rate_bps=delivery_rate * 8,
        bytes_sent=bytes_sent,
        bytes_retrans=bytes_retrans,
        bytes_acked=bytes_acked,
        delivered=delivered,
        lost=words[6],
        retrans_total=words[23],
        unacked=words[4],
        in_flight=words[4] - words[5] - words[6] + words[7],
        segments_received=fields[37],
        bbr_bandwidth_bps=bandwidth * 8 if bandwidth is not None else None,
        bbr_min_rtt_ns=bbr_min_rtt_us * 1000 if bbr_min_rtt_us not in (None, _UNSET_32) else None,
        bbr_pacing_gain=pacing_gain,
        bbr_cwnd_gain=cwnd_gain,
        **_bbr3_info(bbr),
    )


def _bbr_info(raw: bytes) -> tuple[int | None, int | None, float | None, float | None]:
    """BBR's estimates of bandwidth (bytes/s) and minimum RTT (µs), its gains; None for others than BBR."""
    if len(raw) < _BBR_INFO.size:
        return None, None, None, None
    low, high, min_rtt_us, pacing_gain, cwnd_gain = _BBR_INFO.unpack_from(raw)
    return high << 32 | low, min_rtt_us, pacing_gain / _BBR_UNIT, cwnd_gain / _BBR_UNIT


def _bbr3_info(raw: bytes) -> dict[str, Any]:
    """The fields that BBRv3 appends, in TcpInfo's units; none of another version."""
    if len(raw) < _BBR_INFO.size + _BBR3_INFO.size:
        return {}
    max_low, max_high, short_low, short_high, phase, version, *inflight, extra_acked = _BBR3_INFO.unpack_from(
        raw, _BBR_INFO.size
    )
    max_bw, short_term = max_high << 32 | max_low, short_high << 32 | short_low
    shortterm, longterm = (None if bound == _UNSET_32 else bound for bound in inflight)
    return {
        "bbr_version": version,
        "bbr_phase": _BBR_PHASES.get(phase),
        "bbr_max_bw_bps": max_bw * 8,
        "bbr_bw_shortterm_bps": None if short_term == _UNLIMITED_64 else short_term * 8,
        "bbr_inflight_shortterm": shortterm,
        "bbr_inflight_longterm": longterm,
        "bbr_extra_acked": extra_acked,
    }


def run() -> None:
    """Sample until SIGTERM, and print each socket's state as a JSON list: time in ns, TcpInfo's fields.

    stdin has a JSON object with interval_s and connections, whose addresses are in hexadecimal.
    """
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: ended.set())
    asked = json.load(sys.stdin)
    connections = [
        (bytes.fromhex(source), port, bytes.fromhex(destination), to)
        for source, port, destination, to in asked["connections"]
    ]
    diag = TcpDiag()
    due = time.monotonic()
    while not ended.wait(max(0.0, due - time.monotonic())):
        now_ns = time.time_ns()
        for info in diag.sample(connections):
            source, port, destination, to = info.connection
            fields = asdict(info)
            fields["connection"] = [source.hex(), port, destination.hex(), to]
            print(json.dumps([now_ns, fields]))
        due = max(due + asked["interval_s"], time.monotonic())
    sys.stdout.flush()
