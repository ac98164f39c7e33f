# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.topo.line import Line


def test_a_frame_takes_its_bits_ethernets_overhead_and_the_hosts_cost() -> None:
    # 1538 bytes at 10 Gbit/s, and 1 µs of the host, which are 1250 bytes there.
    assert Line(10**10).spacing_ns(1514) == pytest.approx(1230.4)
    assert Line(10**10, packet_cost_ns=1000).spacing_ns(1514) == pytest.approx(2230.4)
    # 5 µs at 100 Mbit/s are 62.5 bytes, of which tc has whole ones.
    assert Line(10**8, packet_cost_ns=5000).overhead_bytes == 24 + 62


def test_the_queueing_disciplines_are_of_the_lines_rate_and_overhead() -> None:
    text = Line(10**10, packet_cost_ns=1000).commands("eth0")
    assert [line.split()[:5] for line in text.splitlines()] == [
        ["qdisc", "add", "dev", "eth0", "root"],
        ["class", "add", "dev", "eth0", "parent"],
        ["qdisc", "add", "dev", "eth0", "parent"],
    ]
    assert "rate 10000000000bit burst 1 cburst 1 overhead 1274" in text
    assert "tbf rate 100000000000bit burst 1514" in text
