# SPDX-License-Identifier: Apache-2.0
"""Statistics compared with a second computation: counting, exact fractions, scipy, scikit-learn."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from weir.analysis.statistics import (
    Interval,
    bandwidth_share,
    best_correlation,
    box,
    cliffs_delta,
    decision_tree,
    ecdf,
    gp_gain_percent,
    grouped_median,
    heat_map,
    jain_index,
    kolmogorov_smirnov,
    median_interval,
    queueing_delay,
    retransmission_ratio,
    share,
)


def test_a_box_has_the_quartiles_and_the_whiskers_of_tukey() -> None:
    rng = np.random.default_rng(1)
    values = np.append(rng.normal(10, 2, 40), [40.0, math.nan, -20.0])
    found = box(values)
    assert found is not None
    known = values[~np.isnan(values)]
    low, high = stats.scoreatpercentile(known, [25, 75])
    assert (found.n, found.q1, found.q3) == (42, pytest.approx(low), pytest.approx(high))
    assert found.median == pytest.approx(float(np.median(known)))
    assert found.mean == pytest.approx(math.fsum(known) / 42)
    reach = 1.5 * stats.iqr(known)
    assert found.low_whisker == min(v for v in known if v >= low - reach)
    assert found.high_whisker == max(v for v in known if v <= high + reach)
    outside = sorted(v for v in known if not low - reach <= v <= high + reach)
    assert list(found.outliers) == outside
    assert {-20.0, 40.0} <= set(found.outliers)
    assert box([math.nan]) is None


def test_one_value_is_a_box_without_height() -> None:
    found = box([3.0])
    assert found is not None
    assert (found.low_whisker, found.q1, found.median, found.q3, found.high_whisker) == (3.0,) * 5


def test_the_distribution_function_counts_values_up_to_each() -> None:
    at, part = ecdf([2.0, 1.0, 2.0, math.nan, 5.0])
    assert (at.tolist(), part.tolist()) == ([1.0, 2.0, 5.0], [0.25, 0.75, 1.0])


def test_the_p_of_samples_that_hardly_differ_is_one_and_nothing_is_said_on_the_terminal(
    recwarn: pytest.WarningsRecorder,
) -> None:
    # scipy's exact p of these exceeds 1 by rounding.
    found = kolmogorov_smirnov([0.0] * 5, [0.0] * 4 + [1.0])
    assert found is not None
    assert (found.statistic, found.p) == (pytest.approx(0.2), 1.0)
    assert not recwarn.list


def test_the_kolmogorov_smirnov_distance_and_its_p_by_all_arrangements() -> None:
    a, b = [0.1, 0.4, 0.7, 1.1], [0.5, 0.8, 0.9, 1.2, 1.5]

    def distance(one: list[float], other: list[float]) -> Fraction:
        return max(
            abs(Fraction(sum(v <= t for v in one), 4) - Fraction(sum(v <= t for v in other), 5))
            for t in one + other
        )

    seen = distance(a, b)
    # Under the null all choices of four of the nine values are equally likely.
    pool = sorted(a + b)
    at_least = [
        distance(list(some), [v for v in pool if v not in some]) >= seen
        for some in itertools.combinations(pool, 4)
    ]
    found = kolmogorov_smirnov(a, b)
    assert found is not None
    assert found.statistic == pytest.approx(float(seen), abs=1e-12)
    assert found.p == pytest.approx(sum(at_least) / len(at_least), abs=1e-9)
    assert (found.n_a, found.n_b) == (4, 5)
    assert kolmogorov_smirnov(a, [math.nan]) is None


def test_less_means_that_the_first_sample_has_larger_values() -> None:
    small, large = np.arange(20.0), np.arange(20.0) + 15
    larger = kolmogorov_smirnov(large, small, "less")
    smaller = kolmogorov_smirnov(small, large, "less")
    assert larger is not None
    assert smaller is not None
    assert larger.p < 1e-5
    assert smaller.p > 0.9


@pytest.mark.parametrize(
    ("rates", "index"),
    [
        ([5, 5, 5], Fraction(1)),
        ([1, 0, 0, 0], Fraction(1, 4)),
        ([1, 2, 3], Fraction(36, 42)),
        ([3e160, 1e160], Fraction(16, 20)),
    ],
)
def test_jains_index_is_the_square_of_the_sum_by_n_times_the_sum_of_squares(
    rates: list[float], index: Fraction
) -> None:
    assert jain_index(rates) == pytest.approx(float(index), rel=1e-12)


def test_jains_index_without_rates_is_none_and_negative_rates_are_refused() -> None:
    assert jain_index([]) is None
    assert jain_index([0, 0]) is None
    with pytest.raises(ValueError, match="rate -1; rates are not negative"):
        jain_index([1, -1])


def test_gain_retransmissions_and_share_as_published() -> None:
    # "under 200ms RTT and 500Mbps bandwidth, BBR improves 115% goodput": 2.15 times as much.
    assert gp_gain_percent(430e6, 200e6) == pytest.approx(115)
    assert gp_gain_percent(1.0, 0.0) is None
    assert retransmission_ratio(3, 12) == 0.25
    assert retransmission_ratio(0, 0) is None
    with pytest.raises(ValueError, match="5 retransmissions of 4 packets; valid: 0 to 4"):
        retransmission_ratio(5, 4)
    assert bandwidth_share(9.0, [9.0, 1.0]) == pytest.approx(0.9)
    assert bandwidth_share(0.0, [0.0]) is None


def test_queueing_delay_is_above_the_smallest_rtt() -> None:
    found = queueing_delay([0.05, 0.04, 0.06, 0.05, math.nan])
    assert found is not None
    assert found.n == 4
    assert found.mean_s == pytest.approx(0.01)
    assert found.median_s == pytest.approx(0.01)
    assert found.maximum_s == pytest.approx(0.02)
    known = queueing_delay([0.05, 0.04], min_rtt_s=0.03)
    assert known is not None
    assert known.mean_s == pytest.approx(0.015)
    with pytest.raises(ValueError, match=r"minimum RTT of 0.05 s, but a sample of 0.04 s"):
        queueing_delay([0.04], min_rtt_s=0.05)
    assert queueing_delay([]) is None


def test_the_best_correlation_is_significant_if_any_is() -> None:
    assert best_correlation([0.9, 0.5, 0.4, None], [0.2, 0.01, 0.04, None]) == 0.5
    assert best_correlation([0.9, 0.5], [0.2, 0.06]) == 0.9
    assert best_correlation([0.9, 0.5]) == 0.9
    assert best_correlation([None], [None]) is None
    with pytest.raises(ValueError, match="2 coefficients and 1 p-values"):
        best_correlation([0.1, 0.2], [0.1])


def test_an_exact_interval_leaves_two_and_a_half_percent_on_either_side() -> None:
    found = share(3, 40)
    assert stats.binom.sf(2, 40, found.low) == pytest.approx(0.025, abs=1e-9)
    assert stats.binom.cdf(3, 40, found.high) == pytest.approx(0.025, abs=1e-9)


def test_a_heat_map_has_sorted_axes_medians_and_counts() -> None:
    found = heat_map([(50, "bbr", 3.0), (5, "bbr", 1.0), (50, "bbr", 5.0), (5, "cubic", None)])
    assert (found.x, found.y) == ((5, 50), ("bbr", "cubic"))
    assert found.values == ((1.0, 4.0), (None, None))
    assert found.counts == ((1, 2), (0, 0))
    highest = heat_map([(1, 1, 3.0), (1, 1, 5.0)], of_cell=lambda values: float(values.max()))
    assert highest.values == ((5.0,),)


def conditions(n: int = 60) -> tuple[list[dict[str, float]], list[str]]:
    rng = np.random.default_rng(7)
    rows = [{"loss": float(rng.uniform(0, 10)), "rtt_ms": float(rng.uniform(1, 100))} for _ in range(n)]
    return rows, ["bbr" if row["loss"] > 4 else "cubic" for row in rows]


def test_a_tree_finds_the_condition_that_decides() -> None:
    rows, labels = conditions()
    tree = decision_tree(rows, labels)
    root = tree.nodes[0]
    assert root.feature == "loss"
    below = max(row["loss"] for row, label in zip(rows, labels, strict=True) if label == "cubic")
    above = min(row["loss"] for row, label in zip(rows, labels, strict=True) if label == "bbr")
    assert root.threshold == pytest.approx((below + above) / 2)
    assert len(tree.nodes) == 3
    assert tree.accuracy == 1.0
    assert tree.validated == pytest.approx(1.0, abs=0.1)
    assert [tree.predict(row) for row in rows] == labels
    assert tree.text().splitlines()[0].startswith("loss ≤ ")
    assert root.counts == (labels.count("bbr"), labels.count("cubic"))


def test_random_labels_are_validated_no_better_than_chance() -> None:
    rows, _ = conditions(200)
    labels = [str(side) for side in np.random.default_rng(3).integers(0, 2, 200)]
    tree = decision_tree(rows, labels)
    assert tree.accuracy > 0.55
    assert tree.validated == pytest.approx(0.5, abs=0.12)


def test_a_tree_of_one_class_is_a_leaf_and_a_tree_without_samples_is_refused() -> None:
    tree = decision_tree([{"x": 1.0}, {"x": 2.0}], ["a", "a"])
    assert (len(tree.nodes), tree.nodes[0].label, tree.validated) == (1, "a", None)
    with pytest.raises(ValueError, match="0 samples and 0 labels"):
        decision_tree([], [])
    with pytest.raises(ValueError, match="features y beside x"):
        decision_tree([{"x": 1.0}, {"y": 1.0}], ["a", "b"])


def test_cliffs_delta_counts_every_pair_of_values() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        # Few different values, so that some are equal; NaN is a missing one.
        a = random.integers(0, 6, random.integers(1, 9)).astype(float)
        b = random.integers(0, 6, random.integers(1, 9)).astype(float)
        pairs = [int(x > y) - int(x < y) for x, y in itertools.product(a, b)]
        assert cliffs_delta([*a, math.nan], b) == pytest.approx(sum(pairs) / len(pairs))
    assert cliffs_delta([2.0, 3.0], [1.0]) == 1.0
    assert cliffs_delta([], [1.0]) is None


def test_the_interval_of_a_median_is_that_of_the_sign_test() -> None:
    # n = 6: 1 - 2/64; n = 10: the 2nd to the 9th, 1 - 2 (1 + 10)/1024; n = 20: the 6th to the 15th (tables).
    for n, low, high, coverage in ((6, 1, 6, 1 - 2 / 64), (10, 2, 9, 1 - 22 / 1024), (20, 6, 15, 0.9586)):
        found = median_interval([float(value) for value in range(n, 0, -1)])
        assert found is not None
        assert (found.low, found.high) == (low, high)
        assert found.coverage == pytest.approx(coverage, abs=1e-4)


def test_few_values_have_their_range_as_interval_and_one_has_none() -> None:
    assert median_interval([]) is None
    assert median_interval([1.0]) is None
    assert median_interval([3.0, 1.0]) == Interval(1.0, 3.0, 0.5)


def test_the_interval_covers_the_median_as_often_as_it_says() -> None:
    draws = np.random.default_rng(20261125).exponential(size=(4000, 9))
    intervals = [median_interval(list(values)) for values in draws]
    inside = [found is not None and found.low <= math.log(2) <= found.high for found in intervals]
    assert intervals[0] is not None
    # The standard error of the share is 0.003.
    assert np.mean(inside) == pytest.approx(intervals[0].coverage, abs=0.012)


def test_the_median_of_groups_has_the_interval_of_their_medians() -> None:
    # Medians 1, 2 and 9; of all values 3.
    assert grouped_median([[1.0], [], [1.0, 2.0, 3.0], [9.0, 9.0, 9.0]]) == (3.0, Interval(1.0, 9.0, 0.75))
    assert grouped_median([[1.0], [9.0, 9.0, 9.0]]) == (9.0, Interval(1.0, 9.0, 0.5))
    assert grouped_median([[1.0, 3.0]]) == (2.0, None)
    assert grouped_median([[], []]) == (None, None)
