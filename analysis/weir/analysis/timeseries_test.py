# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from weir.analysis.tables import RttSamples
from weir.analysis.timeseries import edges, flow_series
from weir_tests.analysis.packets import make_packets

EPOCH_NS = 1_760_000_000_000_000_000
MS = 1_000_000


def test_losses_are_counted_in_the_interval_in_which_the_packet_was_sent() -> None:
    packets = make_packets(
        sent_ns=[EPOCH_NS + t * MS for t in (0, 99, 100, 150, 250)],
        received_ns=[EPOCH_NS + 110 * MS, None, EPOCH_NS + 120 * MS, None, EPOCH_NS + 260 * MS],
        dropped=[False, True, False, True, False],
        inferred_at_ns=[None, EPOCH_NS + 130 * MS, None, None, None],
    )
    rtts = RttSamples(
        flow=np.zeros(3, dtype=np.int64),
        time_ns=EPOCH_NS + np.array([10, 20, 210]) * MS,
        rtt_ns=np.array([20, 30, 40]) * MS,
    )
    series = flow_series(packets, rtts, EPOCH_NS, EPOCH_NS + 400 * MS, 100 * MS)
    assert series.time_s.tolist() == pytest.approx([0.05, 0.15, 0.25, 0.35])
    assert series.sent_packets.tolist() == [2, 2, 1, 0]
    assert series.dropped_packets.tolist() == [1, 1, 0, 0]
    assert series.switch_loss_ratio[:3].tolist() == [0.5, 0.5, 0.0]
    assert series.inferred_loss_ratio[:3].tolist() == [0.5, 0.0, 0.0]
    assert np.isnan(series.switch_loss_ratio[3])
    # 1514 bytes in 100 ms are 121,120 bit/s; two of them arrive in the second interval.
    assert series.received_bps.tolist() == pytest.approx([0, 242_240, 121_120, 0])
    assert series.rtt_s[[0, 2]].tolist() == pytest.approx([0.025, 0.04])
    assert np.isnan(series.rtt_s[1])


def test_intervals_cover_the_whole_time_without_float_rounding() -> None:
    at = edges(EPOCH_NS, EPOCH_NS + 1_050 * MS, 100 * MS)
    assert len(at) == 12
    assert at[-1] == EPOCH_NS + 1_100 * MS
