# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from weir.analysis.jitter import WINDOW_NS, delay_spread_of, jitter_of
from weir.analysis.synthetic import SCENARIOS, generate, with_jitter
from weir.analysis.synthetic.path import relative_delays

MS = 1_000_000


def test_jitter_is_the_median_distance_from_the_median_of_the_window() -> None:
    sent_ns = np.array([4, 1, 2, 3, 0]) * MS
    rtt_ns = np.array([20, 21, 20, 26, 23]) * MS  # median 21: distances 1, 0, 1, 5, 2
    assert jitter_of(sent_ns, rtt_ns) == 1 * MS


def test_what_changes_over_many_windows_is_no_jitter() -> None:
    sent_ns = np.arange(1000) * (WINDOW_NS // 10)
    assert jitter_of(sent_ns, 20 * MS + sent_ns // (WINDOW_NS) * MS) == 0


def test_without_samples_there_is_none() -> None:
    none = np.empty(0, dtype=np.int64)
    assert jitter_of(none, none) == 0
    assert delay_spread_of(none, none) == 0


def test_the_spread_of_delays_is_that_of_what_neighbours_share() -> None:
    rng = np.random.default_rng(1)
    sent_ns = np.cumsum(rng.exponential(0.3 * MS, 30_000)).astype(np.int64)
    delays_ns = (2 * MS * relative_delays(sent_ns, rng)).astype(np.int64)
    errors_ns = rng.normal(0, 0.1 * MS, len(sent_ns)).astype(np.int64)
    above_ns = float(np.percentile(delays_ns, 97.5) - np.median(delays_ns))
    assert delay_spread_of(sent_ns, 20 * MS + errors_ns) < 0.03 * MS
    assert delay_spread_of(sent_ns, 20 * MS + delays_ns + errors_ns) == pytest.approx(above_ns, rel=0.15)
    # Packets that are too far apart do not show that their errors are those of single times.
    assert delay_spread_of(30 * MS * np.arange(len(sent_ns)), 20 * MS + errors_ns) > 0.15 * MS


@pytest.mark.parametrize("mean_s", [1e-4, 1e-3, 5e-3])
def test_added_jitter_keeps_order_and_losses_and_is_estimated_to_its_size(mean_s: float) -> None:
    flow = generate(SCENARIOS["cubic-shared"], 3, 10.0)[0]
    seen = with_jitter(flow, mean_s, np.random.default_rng(3))
    assert np.all(np.diff(seen.sent_ns) >= 0)
    assert np.array_equal(seen.lost, flow.lost)
    assert float(np.mean(flow.sent_ns - seen.sent_ns)) == pytest.approx(mean_s * 1e9, rel=0.2)
    # The median distance of these delays from their median is 0.39 of the mean; ACKs have jitter, too.
    assert 0.2 * mean_s < seen.jitter_ns / 1e9 < 1.2 * mean_s


def test_no_jitter_changes_nothing() -> None:
    flow = generate(SCENARIOS["cubic-shared"], 3, 3.0)[0]
    assert with_jitter(flow, 0.0, np.random.default_rng(3)) is flow
