# SPDX-License-Identifier: Apache-2.0
import json

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


# What tc of iproute2 6.1 printed, without what is not read.
SHAPER = {"kind": "htb", "handle": "1:", "root": True, "packets": 6694, "drops": 35, "qlen": 2}


@pytest.mark.parametrize(
    ("queue", "marked"),
    [
        ({"kind": "codel", "ecn_mark": 3}, 3),
        ({"kind": "pie", "ecn_mark": 0}, 0),
        ({"kind": "pfifo"}, None),
    ],
)
def test_the_counters_are_those_of_the_shaper_and_the_discipline(
    queue: dict[str, object], marked: int | None
) -> None:
    shown = [SHAPER, {"handle": "10:", "parent": "1:1", "packets": 6694, "drops": 35, "qlen": 2, **queue}]
    assert queue_counts(json.dumps(shown)) == QueueCounts(6694, 35, marked, 2)
