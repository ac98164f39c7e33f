# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weir.analysis.captures import traces_of
from weir.analysis.tables import TCP, FlowRow, Packets, RttSamples
from weir.analysis.traces import NONE, as_received, as_sent, continued, handshake_of, unwrapped
from weir_tests.analysis.packets import make_packets
from weir_tests.analysis.tcp_capture import EPOCH_NS, MSS, Host, Transfer, write_run
from weir_tests.analysis.traces import make_trace


def test_sequence_numbers_do_not_wrap() -> None:
    steps = unwrapped(np.array([2**32 - 10, 2**32 - 5, 3, 2**32 - 2, 8], dtype=np.int64))
    assert (steps - steps[0]).tolist() == [0, 5, 13, 8, 18]


def segments(*numbers: int) -> list[int]:
    return [number * MSS for number in numbers]


def test_a_hole_that_is_filled_later_was_a_loss_where_it_opened() -> None:
    flow = make_trace(
        range(10, 90, 10), seq=segments(0, 1, 3, 4, 5, 6, 2, 7), payload=[MSS] * 8, from_start=False
    )
    seen = as_received(flow)
    assert seen.view == "received"
    assert seen.time_ns[seen.lost].tolist() == [25]
    assert seen.seq[:4].tolist() == segments(0, 1, 2, 3)
    assert seen.unfilled == 0


def test_lost_packets_follow_the_last_arrival_at_the_usual_spacing() -> None:
    at_ns = [10, 20, 30, 40, 100, 110, 120, 130, 140]
    flow = make_trace(at_ns, seq=segments(0, 1, 2, 3, 6, 7, 8, 4, 5), payload=[MSS] * 9)
    seen = as_received(replace(flow, handshake_ns=20))
    assert seen.time_ns[seen.lost].tolist() == [50, 60]
    assert np.all(np.diff(seen.time_ns) >= 0)


def test_a_hole_filled_by_the_third_packet_is_a_loss_if_an_rtt_passed() -> None:
    flow = make_trace([0, 10, 20, 60, 70], seq=segments(0, 1, 3, 2, 4), payload=[MSS] * 5)
    assert as_received(flow).losses == 0
    assert as_received(replace(flow, handshake_ns=50)).losses == 1
    assert as_received(replace(flow, handshake_ns=50)).unfilled == 0


def test_what_a_capture_missed_is_told_as_a_share() -> None:
    flow = make_trace(range(10, 110, 10), seq=segments(*range(0, 20, 2)), payload=[MSS] * 10)
    assert as_received(flow).complete == pytest.approx(10 / 19)


def test_a_hole_filled_at_once_is_reordering() -> None:
    flow = make_trace(range(10, 70, 10), seq=segments(0, 1, 3, 2, 4, 5), payload=[MSS] * 6)
    assert as_received(flow).losses == 0


def test_a_hole_that_is_never_filled_is_no_loss_but_unfilled() -> None:
    flow = make_trace(range(10, 60, 10), seq=segments(0, 1, 4, 5, 6), payload=[MSS] * 5)
    seen = as_received(flow)
    assert (seen.losses, seen.unfilled) == (0, 1)


def test_a_hole_that_opened_before_the_capture_is_no_loss_at_a_time_in_it() -> None:
    numbers = [*range(100, 110), 97, 98, *range(110, 115), *range(118, 130)]
    flow = make_trace(range(0, 10 * len(numbers), 10), seq=segments(*numbers), payload=[MSS] * len(numbers))
    seen = as_received(replace(flow, from_start=False))
    assert seen.losses == 0
    assert seen.time_ns.tolist() == flow.time_ns.tolist()
    # Data from before the capture does not fill the hole in it.
    assert seen.unfilled == 1
    assert seen.complete == pytest.approx(1 - 3 / 30)


def test_a_first_segment_that_was_lost_counts_if_the_syn_was_captured() -> None:
    # SYN and ACK; the first two segments come again after the next five, which a server sent a while later.
    at_ns = [0, 20, *range(1000, 1080, 10)]
    flow = make_trace(
        at_ns, seq=[-1, 0, *segments(2, 3, 4, 5, 6, 0, 1, 7)], payload=[0, 0, *[MSS] * 8], from_start=True
    )
    seen = as_received(flow)
    assert seen.time_ns[seen.lost].tolist() == [980, 990]
    assert seen.seq[seen.lost].tolist() == segments(0, 1)
    assert (seen.unfilled, seen.complete) == (0, 1.0)
    assert np.all(np.diff(seen.time_ns) >= 0)
    assert as_received(replace(flow, from_start=False)).losses == 0


def test_a_segment_received_twice_is_no_loss() -> None:
    flow = make_trace(range(10, 80, 10), seq=segments(0, 1, 2, 3, 4, 1, 5), payload=[MSS] * 7)
    assert as_received(flow).losses == 0


def sent(seq: list[int], payload: list[int], syn: tuple[int, ...]) -> Packets:
    n = len(seq)
    never, passed = [None] * n, [False] * n
    return make_packets(
        sent_ns=range(n), received_ns=never, dropped=passed, seq=seq, payload_length=payload, syn=syn
    )


@pytest.mark.parametrize("second", [7, 3_000_000_000])
def test_the_numbers_of_a_later_connection_on_the_same_ports_continue_those_before(second: int) -> None:
    # Each sends its SYN twice; the numbers of the first one wrap.
    first = [2**32 - 101, 2**32 - 101, 2**32 - 100, 0]
    packets = sent([*first, second, second, second + 1, second + 101], [0, 0, 100, 100] * 2, (0, 1, 4, 5))
    seq = continued(packets)
    assert (seq - seq[2]).tolist() == [-1, -1, 0, 100, 199, 199, 200, 300]


def test_a_flow_starts_at_its_syn_even_if_its_first_segment_is_missing() -> None:
    packets = sent([99, 100, 300, 400, 100, 200], [0, 0, *[100] * 4], (0,))
    row = FlowRow(0, 0, "10.0.0.1", "10.0.0.2", 1, 2, TCP, None, None, 0, 0)
    trace = as_sent(row, packets, RttSamples(NONE, NONE, NONE))
    assert trace.from_start
    assert trace.seq.tolist() == [-1, 0, 200, 300, 0, 100]


def test_sender_and_receiver_see_the_same_losses(tmp_path: Path) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    write_run(tmp_path)
    sent, received = (traces_of(tmp_path / "pcap" / name).flows[0] for name in ("server.pcap", "client.pcap"))
    assert (sent.view, received.view) == ("sent", "received")
    assert sent.seq[sent.lost].tolist() == received.seq[received.lost].tolist()
    assert sent.losses == 4


def test_sender_and_receiver_see_that_the_first_segments_were_lost(tmp_path: Path) -> None:
    pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")
    server, client = Host("10.0.0.2", 40_000), Host("10.0.0.1", 5_201)
    Transfer(50, (0, 1, 20), server, client, EPOCH_NS + 10**9, 2_000_000_000).run()
    for name, host in (("server", server), ("client", client)):
        host.write(tmp_path / f"{name}.pcap")
    sent, received = (traces_of(tmp_path / f"{name}.pcap").flows[0] for name in ("server", "client"))
    assert (sent.view, received.view) == ("sent", "received")
    assert received.seq[received.lost].tolist() == sent.seq[sent.lost].tolist() == segments(0, 1, 20)


def test_the_handshake_is_an_rtt_from_the_last_syn_on() -> None:
    syn, syn_again, answer = 0, 1_000, 1_020
    seq = unwrapped(np.array([2**32 - 1, 2**32 - 1, 0, 0], dtype=np.int64))
    assert handshake_of(np.array([syn, syn_again, answer, answer + 3], dtype=np.int64), seq) == 20
