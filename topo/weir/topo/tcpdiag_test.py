# SPDX-License-Identifier: Apache-2.0
import errno
import socket
import struct

import pytest

from weir.topo.tcpdiag import TcpDiag, TcpDiagError, parse_answer, request

LOOPBACK = socket.inet_aton("127.0.0.1")
CONNECTION = (bytes([10, 0, 0, 2]), 20000, bytes([10, 0, 0, 1]), 5201)


def test_request_is_laid_out_as_the_kernel_has_it() -> None:
    # nlmsghdr: 72 bytes, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, sequence 1, port 0;
    # inet_diag_req_v2: AF_INET, IPPROTO_TCP, extensions INFO, VEGASINFO, CONG, pad, all states,
    # ports (big-endian), 16 bytes per address, interface 0, cookie "none".
    expected = (
        "48000000 1400 0100 01000000 00000000"
        "02 06 0e 00 ffffffff 4e20 1451"
        "0a000002 00000000 00000000 00000000"
        "0a000001 00000000 00000000 00000000"
        "00000000 ffffffffffffffff"
    )
    assert request(CONNECTION).hex() == expected.replace(" ", "")


def test_request_for_ipv6_differs_in_family_and_addresses() -> None:
    source, destination = bytes(range(16)), bytes(range(16, 32))
    asked = request((source, 20000, destination, 5201))
    assert len(asked) == len(request(CONNECTION))
    assert (asked[16], asked[28:44], asked[44:60]) == (socket.AF_INET6, source, destination)


@pytest.mark.parametrize(
    ("family", "loopback"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], ids=["IPv4", "IPv6"]
)
def test_socket_is_found_and_a_missing_one_is_not(family: socket.AddressFamily, loopback: str) -> None:
    diag, address = TcpDiag(), socket.inet_pton(family, loopback)
    try:
        server = socket.create_server((loopback, 0), family=family)
    except OSError as error:
        pytest.skip(f"kernel: no {loopback}: {error}")
    with server:
        port = server.getsockname()[1]
        with socket.create_connection((loopback, port)) as client:
            accepted, _ = server.accept()
            with accepted:
                client.sendall(bytes(1000))
                received = 0
                while received < 1000:
                    received += len(accepted.recv(4096))
                own = client.getsockname()[1]
                connection = (address, own, address, port)
                (info,) = diag.sample([connection, (address, own, address, 1)])
                control = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                assert info.connection == connection
                assert info.state == "ESTABLISHED"
                assert info.congestion_control == control.rstrip(b"\0").decode()
                assert info.bytes_sent == 1000
                assert info.bytes_retrans == 0
                assert info.ssthresh is None  # no loss yet
                assert info.in_flight == info.unacked  # no loss yet
                assert info.segments_received >= 1  # the answer to its SYN
    diag.close()


@pytest.mark.parametrize("name", ["bbr", "cubic"])
def test_bbr_estimates_are_shown_for_bbr_only(name: str) -> None:
    diag = TcpDiag()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        port = server.getsockname()[1]
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError as error:
            pytest.skip(f"kernel: no {name}: {error}")
        client.connect(("127.0.0.1", port))
        accepted, _ = server.accept()
        with accepted:
            for _ in range(20):
                client.sendall(bytes(50_000))
                received = 0
                while received < 50_000:
                    received += len(accepted.recv(65_536))
            (info,) = diag.sample([(LOOPBACK, client.getsockname()[1], LOOPBACK, port)])
    diag.close()
    assert info.congestion_control == name
    if name == "cubic":
        assert (info.bbr_bandwidth_bps, info.bbr_min_rtt_ns) == (None, None)
        assert (info.bbr_pacing_gain, info.bbr_cwnd_gain) == (None, None)
    else:
        assert info.bbr_bandwidth_bps is not None
        assert info.bbr_bandwidth_bps > 1_000_000
        assert info.bbr_min_rtt_ns == info.min_rtt_ns
        # Those of Linux' BBR: 2/ln(2) and its inverse, the cycle of PROBE_BW, and 2.
        high = 739 / 256
        assert info.bbr_pacing_gain in {high, 88 / 256, 1.25, 0.75, 1.0}
        assert info.bbr_cwnd_gain in {high, 2.0, 1.0}


def error_answer(code: int) -> bytes:
    return struct.pack("=IHHIIi", 20, 2, 0, 1, 0, code)


def test_missing_socket_is_none_and_other_errors_are_raised() -> None:
    assert parse_answer(error_answer(-errno.ENOENT)) is None
    with pytest.raises(TcpDiagError, match="Operation not permitted"):
        parse_answer(error_answer(-errno.EPERM))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        bytes(15),
        struct.pack("=IHHII", 16, 3, 0, 1, 0),
        struct.pack("=IHHII", 16, 20, 0, 1, 0),
        struct.pack("=IHHII", 999, 20, 0, 1, 0) + bytes(72),
        # An attribute whose length is less than its header.
        struct.pack("=IHHII", 92, 20, 0, 1, 0) + bytes(72) + struct.pack("=HH", 1, 2),
    ],
)
def test_malformed_answer_is_refused(answer: bytes) -> None:
    with pytest.raises(TcpDiagError):
        parse_answer(answer)


def bbr_answer(info: bytes) -> bytes:
    """An answer about a socket of BBR, whose tcp_info is 0."""
    attributes = b"".join(
        struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
        for kind, value in ((2, bytes(232)), (16, info))
    )
    body = bytes([2, 1]) + bytes(70) + attributes
    return struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body


def test_the_state_and_the_bounds_of_bbr3_are_shown_and_those_that_are_not_set_are_none() -> None:
    # Bandwidth, min RTT, gains; max_bw, short-term bandwidth; mode, phase, 0, version; bounds, extra acked.
    estimates = struct.pack("=5I", 250_000, 0, 20_000, 320, 576)
    bounds = struct.pack("=4I4B3I", 500_000, 1, 125_000, 0, 2, 4, 0, 3, 0xFFFF_FFFF, 120, 7)
    info = parse_answer(bbr_answer(estimates + bounds))
    assert info is not None
    assert (info.bbr_bandwidth_bps, info.bbr_min_rtt_ns) == (2_000_000, 20_000_000)
    assert (info.bbr_pacing_gain, info.bbr_cwnd_gain) == (1.25, 2.25)
    assert (info.bbr_version, info.bbr_phase) == (3, "PROBE_UP")
    assert (info.bbr_max_bw_bps, info.bbr_bw_shortterm_bps) == (8 * (2**32 + 500_000), 1_000_000)
    assert (info.bbr_inflight_shortterm, info.bbr_inflight_longterm, info.bbr_extra_acked) == (None, 120, 7)
    older = parse_answer(bbr_answer(estimates))
    assert older is not None
    assert older.bbr_bandwidth_bps == 2_000_000
    assert (older.bbr_version, older.bbr_phase, older.bbr_max_bw_bps) == (None, None, None)


def test_socket_in_time_wait_has_no_state_to_show() -> None:
    assert parse_answer(struct.pack("=IHHII", 88, 20, 0, 1, 0) + bytes([2, 6]) + bytes(70)) is None
