# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from weir.analysis.clocks import ClockFit
from weir.analysis.confusion import compare
from weir_tests.analysis.packets import make_packets


def test_every_packet_falls_into_one_cell() -> None:
    packets = make_packets(
        sent_ns=[0, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 5_000_000],
        received_ns=[None, None, 10, 10, None, 10],
        dropped=[True, True, False, False, True, False],
        inferred_at_ns=[30_000_000, None, 40_000_000, None, None, None],
        payload_length=[1448, 1448, 1448, 1448, 0, 0],
        seq=[0, 1448, 2896, 4344, 5792, 5792],
        cause=["fast_retransmit", None, "rto", None, None, None],
    )
    found = compare(packets, np.zeros(6, dtype=bool))
    assert (found.true_positive, found.false_positive) == (1, 1)
    assert (found.false_negative, found.true_negative) == (1, 1)
    assert found.uninferable_losses == 1
    assert (found.precision, found.recall) == (0.5, 0.5)
    assert found.detection_delay_median_s == 0.03
    assert [f.kind for f in found.false_inferences] == ["false_negative", "false_positive"]
    assert found.false_inferences[0].cause == "not retransmitted before the capture ended"
    assert "rto" in found.false_inferences[1].cause


def test_each_cause_has_its_part_of_the_confusion_and_the_parts_add_up() -> None:
    ms = 1_000_000
    # An original and its retransmission are dropped and both inferred; the next original is retransmitted but
    # not lost; then an original, a retransmission and a last original are dropped and not inferred.
    packets = make_packets(
        sent_ns=[0, 30 * ms, 60 * ms, 61 * ms, 90 * ms, 100 * ms, 130 * ms, 160 * ms, 161 * ms],
        received_ns=[None, None, 70 * ms, 71 * ms, 99 * ms, None, None, 170 * ms, None],
        dropped=[True, True, False, False, False, True, True, False, True],
        ingress_ns=[1 * ms, 32 * ms, 0, 0, 0, 101 * ms, 131 * ms, 0, 162 * ms],
        inferred_at_ns=[30 * ms, 60 * ms, None, 90 * ms, None, None, None, None, None],
        seq=[0, 0, 0, 1448, 1448, 2896, 2896, 2896, 4344],
        retransmission=[False, True, True, False, True, False, True, True, False],
        cause=["fast_retransmit", "lost_retransmission", None, "rto", None, None, None, None, None],
    )
    clock = ClockFit(0, 1 * ms, 0.0, 2, 0, 0, 0)
    found = compare(packets, np.zeros(9, dtype=bool), clock=clock)
    rows = {
        one.cause: (one.true_positive, one.false_positive, one.false_negative, one.precision, one.recall)
        for one in found.causes
    }
    assert rows == {
        "fast_retransmit": (1, 0, 0, 1.0, 1.0),
        "rto": (0, 1, 0, 0.0, None),
        "lost_retransmission": (1, 0, 1, 1.0, 0.5),
        "tail": (0, 0, 1, None, 0.0),
        None: (0, 0, 1, None, 0.0),
    }
    for name in ("true_positive", "false_positive", "false_negative"):
        assert sum(getattr(one, name) for one in found.causes) == getattr(found, name)
    # Sent at 0 and 30 ms, that is 1 and 31 ms on the clock of the switch, which dropped them at 1 and 32 ms.
    assert [one.time_error_median_s for one in found.causes] == [0.0, None, 0.001, None, None]
    assert found.time_error_median_s == 0.0005
    assert compare(packets, np.zeros(9, dtype=bool)).time_error_median_s is None


def test_a_packet_discarded_by_paws_is_distinguished_from_a_wrong_inference() -> None:
    ms = 1_000_000
    packets = make_packets(
        sent_ns=[0, 2 * ms, 20 * ms],
        received_ns=[14 * ms, 12 * ms, 30 * ms],
        dropped=[False, False, False],
        inferred_at_ns=[20 * ms, None, None],
        seq=[0, 1448, 0],
        cause=["fast_retransmit", None, None],
    )
    [false] = compare(packets, np.zeros(3, dtype=bool)).false_inferences
    assert "PAWS" in false.cause


def test_a_vanished_packet_is_lost_in_truth_but_one_in_flight_is_not() -> None:
    packets = make_packets(
        sent_ns=[0, 1], received_ns=[None, None], dropped=[False, False], inferred_at_ns=[9, None]
    )
    found = compare(packets, np.array([False, True]))
    assert (found.true_positive, found.false_negative, found.true_negative) == (1, 0, 1)


def test_a_dropped_syn_that_was_sent_again_counts() -> None:
    packets = make_packets(
        sent_ns=[0], received_ns=[None], dropped=[True], inferred_at_ns=[1_000_000_000], payload_length=[0]
    )
    assert compare(packets, np.zeros(1, dtype=bool)).true_positive == 1


def test_nothing_lost_and_nothing_inferred_has_no_precision() -> None:
    found = compare(make_packets(sent_ns=[0], received_ns=[1], dropped=[False]), np.zeros(1, dtype=bool))
    assert found.precision is None
    assert found.recall is None


def test_false_negative_finds_its_retransmission_across_the_sequence_wrap() -> None:
    packets = make_packets(
        sent_ns=[0, 1],
        received_ns=[None, 5],
        dropped=[True, False],
        payload_length=[1448, 1448],
        seq=[2**32 - 100, 50],
    )
    [false] = compare(packets, np.zeros(2, dtype=bool)).false_inferences
    assert false.cause == "retransmitted, but the loss was attributed to no or to another transmission"


def test_a_protocol_without_acknowledgments_infers_nothing() -> None:
    packets = make_packets(sent_ns=[0, 1], received_ns=[None, 5], dropped=[True, False])
    found = compare(packets, np.zeros(2, dtype=bool), acknowledged=False)
    assert (found.false_negative, found.uninferable_losses) == (0, 1)


def causes_of_missed(payload_length: tuple[int, ...], seq: tuple[int, ...]) -> list[str]:
    """Of the false negatives where all packets but the last one are dropped and nothing is inferred."""
    before = len(seq) - 1
    packets = make_packets(
        sent_ns=range(before + 1),
        received_ns=[None] * before + [99],
        dropped=[True] * before + [False],
        payload_length=payload_length,
        seq=seq,
    )
    return [false.cause for false in compare(packets, np.zeros(len(seq), dtype=bool)).false_inferences]


def test_a_retransmission_that_joins_two_segments_sends_both_again() -> None:
    causes = causes_of_missed((100, 100, 200), (0, 100, 0))
    assert causes == ["retransmitted, but the loss was attributed to no or to another transmission"] * 2


def test_a_keepalive_does_not_send_the_last_byte_again() -> None:
    # RFC 9293 section 3.8.4: its sequence number is that of the last byte, of which it has none.
    assert causes_of_missed((100, 0), (0, 99)) == ["not retransmitted before the capture ended"]
