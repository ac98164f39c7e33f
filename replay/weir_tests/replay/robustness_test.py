# SPDX-License-Identifier: Apache-2.0
"""Any segments become replay files that can be read again; any file is a capture or refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import weir_core
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.replay.errors import ReplayError
from weir.replay.recording import recordings
from weir.replay.replay_file import replay_of
from weir.replay.segments import Datagram, Segment
from weir.topo.script import Script, ScriptError, parse_script

ends = st.sampled_from([(b"\x0a\0\0\1", 50_000), (b"\x0a\0\0\2", 443), (b"\x0a\0\0\3", 443)])
# Around the places where sequence numbers wrap and where they compare as equally far ahead and behind.
numbers = st.sampled_from([0, 1, 1448, 2**31 - 1, 2**31, 2**32 - 1448, 2**32 - 1]) | st.integers(0, 2**32 - 1)
times_s = st.integers(0, 10_000_000).map(lambda time_us: time_us / 1e6)
payloads = st.sampled_from([0, 0, 1, 1448, 65_535])
found = st.one_of(
    st.builds(Segment, times_s, ends, ends, numbers, st.none() | numbers, st.booleans(), payloads),
    st.builds(Datagram, times_s, ends, ends, payloads),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(found, max_size=30))
def test_the_script_of_any_segments_can_be_read_again(segments: list[Segment | Datagram]) -> None:
    for recording in recordings(segments):
        assert recording.duration_s >= 0
        script = recording.script()
        assert sum(script.bytes_of(side) for side in ("client", "server")) == recording.payload
        assert parse_script(script.text, "x") == script


def made(make: Callable[[], Script]) -> tuple[Script | None, str | None]:
    """The script that `make` returns, or why it refused to."""
    try:
        return make(), None
    except (ReplayError, ScriptError, weir_core.CaptureError) as error:
        return None, str(error)


CLASSIC = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: CLASSIC + rest))
def test_any_file_is_a_capture_with_a_replay_or_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pcap"
        path.write_bytes(data)
        script, refused = made(lambda: replay_of([path], None).script)
        assert refused is None or str(path) in refused
    assert script is None or parse_script(script.text, "x") == script


lines = st.lists(
    st.sampled_from(
        [
            '{"weir_replay": 1}',
            '{"weir_replay": 1, "protocol": "udp", "client_bytes": 1}',
            '{"client": [[0.0, 1]], "after": 0}',
            '{"server": [[0.0, 1], [0.5, 2]], "after": 1}',
            '{"server": [[0, 0]]}',
            "",
        ]
    )
    | st.text(alphabet='{}[]":,.-eE0123456789serverclintaf ', max_size=60),
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(lines)
def test_lines_are_a_script_that_can_be_read_again_or_refused(given_lines: list[str]) -> None:
    script, refused = made(lambda: parse_script("\n".join(given_lines), "x"))
    assert refused is None or "valid: " in refused
    assert script is None or parse_script(script.text, "x") == script
