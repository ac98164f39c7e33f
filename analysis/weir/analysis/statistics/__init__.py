# SPDX-License-Identifier: Apache-2.0
"""Statistics of runs: pure functions from numbers to frozen results, without drawing."""

from weir.analysis.statistics.correlations import best_correlation
from weir.analysis.statistics.distributions import Box, KsTest, box, cliffs_delta, ecdf, kolmogorov_smirnov
from weir.analysis.statistics.flows import (
    QueueingDelay,
    bandwidth_share,
    gp_gain_percent,
    jain_index,
    queueing_delay,
    retransmission_ratio,
)
from weir.analysis.statistics.grids import HeatMap, heat_map
from weir.analysis.statistics.medians import Interval, grouped_median, median_interval
from weir.analysis.statistics.proportions import Share, share
from weir.analysis.statistics.trees import DecisionTree, TreeNode, decision_tree

__all__ = [
    "Box",
    "DecisionTree",
    "HeatMap",
    "Interval",
    "KsTest",
    "QueueingDelay",
    "Share",
    "TreeNode",
    "bandwidth_share",
    "best_correlation",
    "box",
    "cliffs_delta",
    "decision_tree",
    "ecdf",
    "gp_gain_percent",
    "grouped_median",
    "heat_map",
    "jain_index",
    "kolmogorov_smirnov",
    "median_interval",
    "queueing_delay",
    "retransmission_ratio",
    "share",
]
