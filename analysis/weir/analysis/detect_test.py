# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from weir.analysis.captures import CaptureTraces
from weir.analysis.detect import choose_flow, detect, events_of
from weir.analysis.errors import FlowChoiceError
from weir.analysis.vantage import Vantage
from weir_tests.analysis.tcp_capture import Host, Transfer, write_run
from weir_tests.analysis.traces import make_trace

FLOWS = (make_trace([10, 20, 30], payload=[1448, 1448, 0], lost=[1]), make_trace([5], port=7))


def test_the_flow_with_the_most_data_is_taken_unless_one_is_named() -> None:
    capture = CaptureTraces("a.pcap", FLOWS, ())
    assert choose_flow(capture) is FLOWS[0]
    assert choose_flow(capture, FLOWS[1].name) is FLOWS[1]


def test_an_unknown_flow_names_those_there_are() -> None:
    with pytest.raises(FlowChoiceError, match=r"10\.0\.0\.2:7-10\.0\.0\.1:5201"):
        choose_flow(CaptureTraces("a.pcap", FLOWS, ()), "10.0.0.9:1-10.0.0.1:2")


SEEN = Vantage("flow", "sent", 1.0, 20_000_000, "acks", 1000, "rtts")


def test_only_data_of_the_flow_becomes_events() -> None:
    events = events_of(FLOWS[0], SEEN)
    assert events.sent_ns.tolist() == [10, 20]
    assert events.lost.tolist() == [False, True]
    assert (events.min_rtt_ns, events.jitter_ns) == (20_000_000, 1000)


def test_times_of_a_clock_that_runs_faster_are_converted_about_the_middle_of_the_flow() -> None:
    at_ns = np.arange(0, 10**10, 10**7)
    true = make_trace(at_ns)
    fast = make_trace(5 * 10**9 + np.rint((at_ns - 5 * 10**9) * (1 + 100e-6)).astype(np.int64))
    one, other = events_of(true, SEEN), events_of(fast, SEEN, drift=100e-6)
    assert np.abs(one.sent_ns - other.sent_ns).max() <= 2_000
    assert np.abs(one.rtt_sent_ns - other.rtt_sent_ns).max() <= 2_000


def cut(capture: bytes, bytes_left: int) -> bytes:
    """The capture with so many bytes of its last record."""
    last, at = 0, 24
    while at < len(capture):
        last, at = at, at + 16 + struct.unpack_from("<I", capture, at + 8)[0]
    return capture[: last + bytes_left]


@pytest.mark.parametrize("bytes_left", [5, 40])
def test_a_capture_that_ends_inside_a_record_is_judged_by_what_came_before(
    tmp_path: Path, bytes_left: int
) -> None:
    write_run(tmp_path, segments=600, drop=range(30, 500, 20))
    whole, part = tmp_path / "pcap" / "client.pcap", tmp_path / "cut.pcap"
    part.write_bytes(cut(whole.read_bytes(), bytes_left))
    found = detect("wehey_loss_trend", part, whole)
    assert any("ends inside a record" in warning for warning in found.warnings)


@pytest.mark.parametrize("bytes_left", [5, 40])
def test_a_capture_of_acks_that_ends_inside_a_record_is_judged_by_what_came_before(
    tmp_path: Path, bytes_left: int
) -> None:
    server, client = Host("10.0.0.2", 40_000), Host("10.0.0.1", 5_201)
    Transfer(600, range(30, 500, 20), server, client).run()
    client.records = [(at_ns, frame) for at_ns, frame in client.records if len(frame) < 1000]
    whole, part = tmp_path / "whole.pcap", tmp_path / "cut.pcap"
    client.write(whole)
    part.write_bytes(cut(whole.read_bytes(), bytes_left))
    found = detect("wehey_loss_trend", part, whole)
    assert [flow.view for flow in found.flows] == ["acked", "acked"]
    assert any("ends inside a record" in warning for warning in found.warnings)
