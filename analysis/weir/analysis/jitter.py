# SPDX-License-Identifier: Apache-2.0
"""How much the delay between a sender and a policer varies, as its capture shows it."""

from __future__ import annotations

import numpy as np

from weir.analysis.tables import Floats, Ints

WINDOW_NS = 250_000_000
"""Slower changes are those of queues and routes, which all packets of a moment share."""
NEAR_NS = 2_000_000
"""Packets sent within this time meet the same queues."""
SPREAD_PERCENT = 97.5


def jitter_of(sent_ns: Ints, rtt_ns: Ints) -> int:
    """The median distance of a flow's RTT samples from the median of those sent within the same 250 ms, ns.

    An upper bound: the way back and the receiver add to it. 0 without samples.
    """
    if not len(rtt_ns):
        return 0
    return int(np.median(np.abs(np.concatenate(_deviations(*_in_order(sent_ns, rtt_ns))))))


def delay_spread_of(sent_ns: Ints, rtt_ns: Ints) -> int:
    """By how much a long delay exceeds the median one of the same 250 ms, ns; of all, 97.5 % are shorter.

    Only what neighbouring packets share: errors of single times are taken out by the differences between RTTs
    of packets sent within `NEAR_NS`. 0 without samples.
    """
    if not len(rtt_ns):
        return 0
    sent_ns, rtt_ns = _in_order(sent_ns, rtt_ns)
    deviations = np.concatenate(_deviations(sent_ns, rtt_ns))
    usual = float(np.median(np.abs(deviations)))
    steps = np.abs(np.diff(rtt_ns))[np.diff(sent_ns) < NEAR_NS]
    alone = float(np.median(steps)) if len(steps) else 0.0  # √2 of one time's error
    shared = max(1 - alone**2 / 2 / max(usual, 1.0) ** 2, 0.0) ** 0.5
    return int(shared * np.percentile(deviations, SPREAD_PERCENT))


def _in_order(sent_ns: Ints, rtt_ns: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(sent_ns, kind="stable")
    return sent_ns[order], rtt_ns[order]


def _deviations(sent_ns: Ints, rtt_ns: Ints) -> list[Floats]:
    """From the median of each window, by window; times ascend."""
    window = (sent_ns - sent_ns[0]) // WINDOW_NS
    return [group - np.median(group) for group in np.split(rtt_ns, np.flatnonzero(np.diff(window)) + 1)]
