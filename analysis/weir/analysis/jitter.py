# SPDX-License-Identifier: Apache-2.0
"""How much the delay between a sender and a policer varies, as its capture shows it."""

from __future__ import annotations

import numpy as np

from weir.analysis.tables import Ints

WINDOW_NS = 250_000_000
"""Slower changes are those of queues and routes, which all packets of a moment share."""


def jitter_of(sent_ns: Ints, rtt_ns: Ints) -> int:
    """The median distance of a flow's RTT samples from the median of those sent within the same 250 ms, ns.

    An upper bound: the way back and the receiver add to it. 0 without samples.
    """
    if not len(rtt_ns):
        return 0
    order = np.argsort(sent_ns, kind="stable")
    window = (sent_ns[order] - sent_ns[order[0]]) // WINDOW_NS
    groups = np.split(rtt_ns[order], np.flatnonzero(np.diff(window)) + 1)
    return int(np.median(np.concatenate([np.abs(group - np.median(group)) for group in groups])))
