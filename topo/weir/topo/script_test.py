# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.topo.script import Block, Script, ScriptError, joined, parse_script, regular_writes

TALK = Script(
    (
        Block("client", 0, ((0.0, 517),)),
        Block("server", 517, ((0.0, 14_480), (0.02, 2_896))),
        Block("client", 17_376, ((1.5, 80),)),
    ),
    {"source": "video.pcap"},
)
HEAD = '{"weir_replay": 1}\n'


def test_a_script_is_read_as_it_was_written() -> None:
    assert TALK.text.splitlines() == [
        '{"weir_replay": 1, "client_bytes": 597, "server_bytes": 17376, "source": "video.pcap"}',
        '{"client": [[0.0, 517]], "after": 0}',
        '{"server": [[0.0, 14480], [0.02, 2896]], "after": 517}',
        '{"client": [[1.5, 80]], "after": 17376}',
    ]
    assert parse_script(TALK.text, "x") == TALK


def test_the_example_of_the_specification_is_a_script() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spec" / "replay.md").read_text()
    example = parse_script(page.split("```\n")[1], "replay.md")
    assert example.blocks == TALK.blocks
    assert example.about == {"connection": "10.0.0.1:50000-10.0.0.2:443"}


def test_the_example_of_datagrams_is_a_script_of_udp() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spec" / "replay.md").read_text()
    example = parse_script(page.split("```\n")[3], "replay.md")
    assert (example.protocol, example.largest_write, example.last_s) == ("udp", 1200, 0.04)
    assert parse_script(example.text, "x") == example


def test_the_description_of_a_script_is_not_in_its_digest() -> None:
    assert TALK.sha256 == Script(TALK.blocks, {}).sha256
    assert TALK.sha256 != Script(TALK.blocks[:2], {}).sha256


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x:1: no JSON"),
        ("[]", "x:1: .* is not a JSON object"),
        ('{"weir_replay": 2}', "x:1: not a replay file"),
        (HEAD, "x: has no writes"),
        (HEAD + '{"server": [[0, 1]], "afetr": 0}', "x:2: keys are server, afetr; valid: such as"),
        (HEAD + '{"server": [[0, 1]], "after": -1}', "x:2: after is -1; valid: bytes"),
        (HEAD + '{"server": []}', r"x:2: server is not a list of \[seconds, bytes\]"),
        (HEAD + '{"server": [[0, 0]]}', "x:2: server is not a list"),
        (HEAD + '{"server": [[true, 5]]}', "x:2: server is not a list"),
        (HEAD + '{"server": [[NaN, 5]]}', "x:2: server is not a list"),
        (HEAD + '{"server": [[1, 5], [0.5, 5]]}', "x:2: writes are out of order"),
        (HEAD + '{"server": [[0, 5]], "after": 9}', "the server waits for 9 bytes"),
        ('{"weir_replay": 1, "protocol": "sctp"}', "x:1: protocol is 'sctp'; valid: tcp or udp"),
        (
            '{"weir_replay": 1, "protocol": "udp"}\n{"client": [[0, 9]]}\n{"server": [[0, 5]], "after": 9}',
            "the server waits for 9 bytes, and datagrams may be lost; valid: no after",
        ),
        (
            HEAD + '{"client": [[0, 9]]}\n{"server": [[0, 5]], "after": 9}\n{"server": [[0, 5]], "after": 2}',
            "blocks of the server are out of order",
        ),
        ('{"weir_replay": 1, "server_bytes": 6}\n{"server": [[0, 5]]}', "the first line says 6"),
    ],
)
def test_a_file_that_could_not_be_played_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ScriptError, match=words):
        parse_script(text, "x")


@given(st.text() | st.text(alphabet='{}[]":,0123456789serverclintaf \n').map(lambda text: HEAD + text))
def test_any_text_is_a_script_or_a_script_error(text: str) -> None:
    said = "valid: "
    try:
        parse_script(text, "x")
    except ScriptError as error:
        said = str(error)
    assert "valid: " in said


def test_writes_at_an_interval_restart_with_each_on_period() -> None:
    (block,) = regular_writes(1000, 0.04, 0.5, 0.1, 0.15).blocks
    assert block.writes == tuple((at_s, 1000) for at_s in (0.0, 0.04, 0.08, 0.25, 0.29, 0.33))
    (block,) = regular_writes(1000, 0.1, 0.35, None, None).blocks
    assert block.writes == tuple((at_s, 1000) for at_s in (0.0, 0.1, 0.2, 0.3))


def test_joined_scripts_wait_for_each_other() -> None:
    twice = joined([TALK, TALK], {})
    assert [block.after_bytes for block in twice.of("client")] == [0, 17_376, 17_376, 34_752]
    assert [block.after_bytes for block in twice.of("server")] == [517, 517 + 80 + 517]
    assert parse_script(twice.text, "x").blocks == twice.blocks
