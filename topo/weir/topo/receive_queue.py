# SPDX-License-Identifier: Apache-2.0
"""A queue of a host's kernel for what the host receives.

Linux queues frames on transmission only. So an ingress filter of the host's interface redirects each frame
to an intermediate functional block (ifb). The ifb queues the frame for transmission, and then the kernel
receives it again on the interface. A capture has the frame once, as it was before the queue: the kernel hands
frames from an ifb to no packet socket (`tc_skip_classify` in net/core/dev.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLOCK = "ifb0"
_SHAPER, _QUEUE = "1:", "10:"
_FRAME_BYTES = 1514
_SENT, _DROPPED = re.compile(r" Sent \d+ bytes (\d+) pkt"), re.compile(r"\(dropped (\d+),")
_WAITING, _MARKED = re.compile(r" backlog \S+ (\d+)p"), re.compile(r" ecn_mark (\d+)")


@dataclass(frozen=True)
class ReceiveQueue:
    """A queueing discipline in tc(8)'s words, and the rate (bit/s) at which frames leave it."""

    discipline: str
    rate_bps: int

    def links(self) -> str:
        """The lines of an `ip -batch` in the host's namespace, before those of `commands`."""
        return f"link add {_BLOCK} type ifb\nlink set {_BLOCK} up\n"

    def commands(self, interface: str) -> str:
        """The lines of a `tc -batch` that give an interface this queue."""
        return (
            f"qdisc add dev {_BLOCK} root handle {_SHAPER} htb default 1\n"
            # An empty bucket spaces frames, as a line does; tc would replace a burst of 0 by its default.
            f"class add dev {_BLOCK} parent {_SHAPER} classid {_SHAPER}1 htb rate {self.rate_bps}bit burst 1 "
            f"cburst 1 quantum {_FRAME_BYTES}\n"
            f"qdisc add dev {_BLOCK} parent {_SHAPER}1 handle {_QUEUE} {self.discipline}\n"
            f"qdisc add dev {interface} handle ffff: ingress\n"
            f"filter add dev {interface} parent ffff: protocol all matchall "
            f"action mirred egress redirect dev {_BLOCK}\n"
        )


SHOW_QUEUES = ("-s", "qdisc", "show", "dev", _BLOCK)
"""The words for tc whose output `queue_counts` reads."""


@dataclass(frozen=True)
class QueueCounts:
    """Numbers of frames that a host's receive queue sent on, dropped, marked, and still holds."""

    sent: int
    dropped: int
    marked: int | None
    """Marked CE; None if tc does not say it of this discipline."""
    waiting: int


def queue_counts(shown: str) -> QueueCounts:
    """Read tc's output, whose JSON is none where tc does not know the discipline."""
    shaper, queue = (
        next(one for one in shown.split("qdisc ") if one.split()[1:2] == [handle])
        for handle in (_SHAPER, _QUEUE)
    )
    marked = _MARKED.search(queue)
    # The discipline drops; htb counts its drops too, and beside them what it could not pass on.
    return QueueCounts(
        sent=_number(_SENT, shaper),
        dropped=_number(_DROPPED, queue),
        marked=None if marked is None else int(marked[1]),
        waiting=_number(_WAITING, queue),
    )


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    assert found is not None, text
    return int(found[1])
