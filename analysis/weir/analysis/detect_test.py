# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from weir.analysis.detect import choose_flow, events_of
from weir.analysis.errors import FlowChoiceError
from weir.analysis.traces import CaptureTraces
from weir_tests.analysis.traces import make_trace

FLOWS = (make_trace([10, 20, 30], payload=[1448, 1448, 0], lost=[1]), make_trace([5], port=7))


def test_the_flow_with_the_most_data_is_taken_unless_one_is_named() -> None:
    capture = CaptureTraces("a.pcap", FLOWS, ())
    assert choose_flow(capture) is FLOWS[0]
    assert choose_flow(capture, FLOWS[1].name) is FLOWS[1]


def test_an_unknown_flow_names_those_there_are() -> None:
    with pytest.raises(FlowChoiceError, match=r"10\.0\.0\.2:7-10\.0\.0\.1:5201"):
        choose_flow(CaptureTraces("a.pcap", FLOWS, ()), "10.0.0.9:1-10.0.0.1:2")


def test_only_data_of_the_flow_becomes_events() -> None:
    events = events_of(FLOWS[0])
    assert events.sent_ns.tolist() == [10, 20]
    assert events.lost.tolist() == [False, True]


def test_a_flow_without_rtt_cannot_be_compared() -> None:
    silent = make_trace([1, 2], rtt_ns=np.empty(0, dtype=np.int64))
    with pytest.raises(FlowChoiceError, match="no RTT sample; the capture must hold its ACKs too"):
        events_of(silent)
