# SPDX-License-Identifier: Apache-2.0
"""Captures of one transfer from other points of its path, and of a part of its packets."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from weir.analysis.captures import traces_of
from weir.analysis.detect import detect, policing
from weir.analysis.errors import FlowChoiceError
from weir.analysis.tables import reverse_of
from weir.analysis.timestamps import timestamps_of
from weir.analysis.vantage import vantage_of
from weir_tests.analysis.tcp_capture import write_run

pytest.importorskip("weir_core", reason="weir_core is not built; build it with: make setup")

SENDER, RECEIVER = bytes([10, 0, 0, 2]), bytes([10, 0, 0, 1])


def rewritten(path: Path, to: Path, keep: Callable[[int, bytes], bool], snap: int = 65535) -> Path:
    """A copy of the packets for which `keep` (number, frame) is true, cut to `snap` bytes."""
    data = path.read_bytes()
    kept, at, number = [data[:24]], 24, 0
    while at < len(data):
        seconds, fraction, captured, length = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + captured][:snap]
        at, number = at + 16 + captured, number + 1
        if keep(number, frame):
            kept.append(struct.pack("<IIII", seconds, fraction, len(frame), length) + frame)
    to.write_bytes(b"".join(kept))
    return to


def source(frame: bytes) -> bytes:
    return frame[26:30]


@pytest.fixture
def sender(tmp_path: Path) -> Path:
    write_run(tmp_path, segments=600, drop=range(30, 500, 20))
    return tmp_path / "pcap" / "server.pcap"


def test_the_acks_alone_show_the_losses_that_the_receiver_sees(sender: Path, tmp_path: Path) -> None:
    acks = rewritten(sender, tmp_path / "acks.pcap", lambda _, frame: source(frame) == RECEIVER)
    [seen] = traces_of(acks).flows
    received = traces_of(sender.with_name("client.pcap")).flows[0]
    assert (seen.view, received.view) == ("acked", "received")
    assert seen.name == received.name
    assert seen.losses == received.losses == 24
    # What the first ACK acknowledges is not among the arrivals.
    first = received.seq[received.lost][0] - seen.seq[seen.lost][0]
    assert (seen.seq[seen.lost] + first).tolist() == received.seq[received.lost].tolist()


def test_who_has_only_acks_is_told_so(sender: Path, tmp_path: Path) -> None:
    acks = rewritten(sender, tmp_path / "acks.pcap", lambda _, frame: source(frame) == RECEIVER)
    capture = traces_of(acks)
    assert "only the ACKs" in capture.warnings[-1]
    assert capture.flows[0].name in capture.warnings[-1]
    # There is one flow, as in a capture of one sender.
    with pytest.raises(FlowChoiceError, match="a pair needs a second flow, in this or in another capture"):
        detect("shared", acks)


def test_a_snap_length_of_64_bytes_changes_no_loss(sender: Path, tmp_path: Path) -> None:
    cut = rewritten(sender, tmp_path / "cut.pcap", lambda *_: True, snap=64)
    assert traces_of(cut).flows[0].lost.tolist() == traces_of(sender).flows[0].lost.tolist()


@pytest.mark.parametrize("one_in", [2, 10])
def test_nothing_is_told_from_a_sampled_capture(sender: Path, tmp_path: Path, one_in: int) -> None:
    sampled = rewritten(sender, tmp_path / "sampled.pcap", lambda number, _: number % one_in == 0)
    found = detect("shared", sender, sampled)
    assert found.result.verdict == "cannot_tell"
    assert "% of its bytes are in no captured packet" in found.result.reason
    verdict = policing("policing", sampled)[1][0]
    assert verdict.verdict == "cannot_tell"
    assert "sampled" in verdict.reason


def test_how_exact_times_are_must_be_known(sender: Path, tmp_path: Path) -> None:
    data = rewritten(sender, tmp_path / "data.pcap", lambda _, frame: source(frame) == SENDER)
    flow = replace(traces_of(data).flows[0], handshake_ns=20_000_000)
    blind = vantage_of(flow, {})
    assert (blind.min_rtt_ns, blind.rtt_from, blind.jitter_ns) == (20_000_000, "handshake", None)
    assert "give --jitter if you know" in (blind.obstacle(times_matter=True) or "")
    assert blind.obstacle(times_matter=False) is None
    told = vantage_of(flow, {}, jitter_ns=100_000)
    assert (told.jitter_ns, told.jitter_from, told.obstacle(times_matter=True)) == (100_000, "option", None)


def test_behind_the_policer_timestamps_show_an_rtt_but_jitter_takes_longer(sender: Path) -> None:
    client = sender.with_name("client.pcap")
    flow = traces_of(client).flows[0]
    seen = vantage_of(flow, timestamps_of(client, [flow.key, reverse_of(flow.key)]))
    assert (seen.view, seen.rtt_from, seen.jitter_ns) == ("received", "timestamps", None)
    assert seen.min_rtt_ns == pytest.approx(20_000_000, abs=1_000_000)
    assert "TCP timestamps for 5 s" in (seen.obstacle(times_matter=True) or "")


def test_without_an_rtt_nothing_is_told(sender: Path, tmp_path: Path) -> None:
    data = rewritten(sender, tmp_path / "data.pcap", lambda _, frame: source(frame) == SENDER)
    found = detect("wehey_loss_trend", data, sender)
    assert found.result.verdict == "cannot_tell"
    assert "the capture shows no RTT" in found.result.reason
    assert found.captured[0].min_rtt_ns is None


def test_at_the_sender_rtts_bound_the_jitter(sender: Path) -> None:
    seen = vantage_of(traces_of(sender).flows[0], {})
    assert (seen.rtt_from, seen.jitter_from) == ("acks", "rtts")
    assert seen.min_rtt_ns == 20_000_000
    assert seen.obstacle(times_matter=True) is None
