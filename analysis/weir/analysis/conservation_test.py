# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from weir.analysis import conservation
from weir.analysis.conservation import Account, LostReports, PolicerCheck
from weir_tests.analysis.packets import make_packets


def test_in_flight_is_only_what_had_no_time_to_arrive() -> None:
    packets = make_packets(
        sent_ns=[100, 900, 950, 960],
        received_ns=[None, None, 1_010, None],
        dropped=[False, False, False, True],
    )
    flying = conservation.in_flight(packets, capture_end_ns=1_000, path_ns=200)
    assert flying.tolist() == [False, True, False, False]
    account = conservation.count(packets, flying)
    assert account == Account(sent=4, received=1, reported_drops=1, in_flight=1)
    assert account.unexplained == 1  # the packet at 100 ns vanished


def test_lost_reports_explain_missing_packets_of_their_policer_only() -> None:
    accounts = {"a": Account(100, 90, 7), "b": Account(100, 95, 3), "free": Account(50, 49, 0)}
    lost = LostReports(gaps=4, tail=1, by_policer={"common": 5})
    after = conservation.attribute(accounts, {"a": "common", "b": "common", "free": None}, lost, 0)
    assert [after[f].reports_lost for f in accounts] == [3, 2, 0]
    assert [after[f].unexplained for f in accounts] == [0, 0, 1]


def test_a_flow_never_gets_more_than_the_pool_of_lost_reports() -> None:
    accounts = {"a": Account(100, 90, 4), "b": Account(100, 97, 0)}
    lost = LostReports(gaps=3, tail=0, by_policer={"common": 9})
    after = conservation.attribute(accounts, {"a": "common", "b": "common"}, lost, 0)
    # 6 and 3 packets are missing, 3 reports known lost: divided 2 to 1; 6 packets stay unexplained.
    assert [after[f].reports_lost for f in accounts] == [2, 1]
    assert conservation.total(list(after.values())).unexplained == 6


def test_emulated_link_losses_come_after_lost_reports() -> None:
    after = conservation.attribute({"a": Account(10, 7, 0)}, {"a": "p"}, LostReports(1, 0, {"p": 1}), 5)
    assert (after["a"].reports_lost, after["a"].emulated_losses, after["a"].unexplained) == (1, 2, 0)


def test_tail_is_what_the_switch_sent_after_the_last_report_received() -> None:
    lost = conservation.lost_reports(
        received=102,
        duplicates=2,
        gaps=5,
        sent_by_switch=108,
        red_by_policer={"p": 108},
        reported_by_policer={"p": 100},
    )
    assert (lost.gaps, lost.tail, lost.pool) == (5, 3, 8)
    assert lost.by_policer == {"p": 8}


def test_a_dropped_packet_that_arrives_is_a_contradiction_and_unbalances_the_law() -> None:
    packets = make_packets(sent_ns=[0, 1], received_ns=[5, 6], dropped=[True, False])
    account = conservation.count(packets, np.zeros(2, dtype=bool))
    assert (account.contradictions, account.unexplained) == (1, -1)


def test_policer_counts_that_differ_are_named() -> None:
    agreeing = PolicerCheck(100, 100, 100, 10, 9, 1)
    assert agreeing.disagreements == []
    differing = PolicerCheck(
        counted_by_colour=100, packets_met=99, sent_in_captures=98, red=10, reported_drops=9, reports_lost=0
    )
    assert len(differing.disagreements) == 3
