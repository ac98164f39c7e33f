# SPDX-License-Identifier: Apache-2.0
import pytest

from weir.topo.receive_queue import QueueCounts, ReceiveQueue, queue_counts


def test_what_arrives_goes_to_a_shaper_with_the_discipline_below_it() -> None:
    queue = ReceiveQueue("codel target 5ms ecn", 10_000_000)
    assert queue.links() == "link add ifb0 type ifb\nlink set ifb0 up\n"
    lines = queue.commands("eth0").splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["qdisc", "add", "dev", "ifb0"],
        ["class", "add", "dev", "ifb0"],
        ["qdisc", "add", "dev", "ifb0"],
        ["qdisc", "add", "dev", "eth0"],
        ["filter", "add", "dev", "eth0"],
    ]
    assert "htb rate 10000000bit burst 1 cburst 1" in lines[1]
    assert lines[2].endswith("parent 1:1 handle 10: codel target 5ms ecn")


# What tc of iproute2 6.1 prints.
SHAPER = """\
qdisc htb 1: root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0 direct_qlen 32
 Sent 9992186 bytes 6694 pkt (dropped 36, overlimits 6600 requeues 0)
 backlog 3028b 2p requeues 0
"""
CODEL = """\
qdisc codel 10: parent 1:1 limit 1000p target 5ms interval 100ms ecn
 Sent 9992186 bytes 6696 pkt (dropped 35, overlimits 0 requeues 0)
 backlog 3028b 2p requeues 0
  count 1 lastcount 1 ldelay 2us drop_next 0us
  maxpacket 1514 ecn_mark 3 drop_overlimit 0
"""
UNKNOWN = """\
qdisc dualpi2 10: parent 1:1 [Unknown qdisc, optlen=84]
 Sent 9992186 bytes 6696 pkt (dropped 35, overlimits 0 requeues 0)
 backlog 3028b 2p requeues 0
"""


@pytest.mark.parametrize(("queue", "marked"), [(CODEL, 3), (UNKNOWN, None)])
def test_the_counters_are_those_of_the_shaper_and_the_discipline(queue: str, marked: int | None) -> None:
    assert queue_counts(SHAPER + queue) == QueueCounts(6694, 35, marked, 2)
    assert queue_counts(queue + SHAPER) == QueueCounts(6694, 35, marked, 2)
