# SPDX-License-Identifier: Apache-2.0
"""The delay that switch and scheduler add to a frame beyond the delay of its link."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weir.analysis.models import LatenessResult
from weir.analysis.run_data import Directed
from weir.rundir.manifest import Manifest

ONE_CLOCK = ("softswitch", "bmv2")
"""Targets whose senders and receivers run on one machine, so that their timestamps can be subtracted."""
FAST_LINE_BPS = 10**9
"""On a slower line a frame is longer under way than the switch is late."""


def switch_lateness(
    manifest: Manifest, flows: Iterable[Directed], *, one_clock: bool = True
) -> LatenessResult | None:
    """Received − sent − delay of the link, over all frames on links without queue, slow line and jitter.

    None where the hosts have different clocks: their offset is not known well enough.
    """
    if manifest.target not in ONE_CLOCK or not one_clock:
        return None
    delay_ns = {
        address: round(host.delay_s * 1e9)
        for host in manifest.hosts
        if host.rate_bps is None and not host.jitter_s
        if host.line_rate_bps is None or host.line_rate_bps >= FAST_LINE_BPS
        for address in host.addresses
    }
    found = [
        (packets.received_ns - packets.sent_ns)[packets.received] - delay_ns[flow.row.dst]
        for flow in flows
        if flow.row.dst in delay_ns and (packets := flow.packets).received.any()
    ]
    if not found:
        return None
    late = np.concatenate(found)
    p50, p99, p999 = np.percentile(late, [50, 99, 99.9], method="inverted_cdf") / 1e9
    return LatenessResult(
        frames=len(late),
        p50_s=float(p50),
        p99_s=float(p99),
        p999_s=float(p999),
        max_s=float(late.max()) / 1e9,
    )
