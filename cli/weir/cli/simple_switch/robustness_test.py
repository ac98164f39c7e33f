# SPDX-License-Identifier: Apache-2.0
"""Lines of any words: each gets an answer, and the connection still works after it."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weir.cli.simple_switch.main import SimpleSwitchShell
from weir.cli.simple_switch.program import Program
from weir.cli.simple_switch.services import Switch
from weir.topo.tools import ToolMissingError, find_own_program

PROGRAM = Path(__file__).parents[4] / "softswitch" / "programs" / "mixture.json"
# Not the one that runs programs, and not those that write files.
VERBS = [
    name.removeprefix("do_")
    for name in dir(SimpleSwitchShell)
    if name.startswith("do_")
    and name not in ("do_shell", "do_write_config_to_file", "do_serialize_state", "do_EOF")
]
LISTENS = re.compile(r"weir-switch: Thrift on 127\.0\.0\.1:(\d+)")


@pytest.fixture(name="port", scope="module")
def _port() -> Iterator[int]:
    try:
        program = str(find_own_program("weir-switch"))
    except ToolMissingError as error:
        pytest.skip(str(error))
    command = [program, "--p4runtime", "127.0.0.1:0", "--thrift", "127.0.0.1:0", "--json", str(PROGRAM)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        listens = LISTENS.match(second)
        assert listens is not None, (first, second)
        yield int(listens[1])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


@pytest.fixture(name="shell", scope="module")
def _shell(port: int) -> Iterator[SimpleSwitchShell]:
    switch = Switch("127.0.0.1", port)
    yield SimpleSwitchShell(switch, Program(switch.call("bm_get_config")))
    switch.close()


def names() -> list[str]:
    program = Program(PROGRAM.read_text())
    kinds = (
        program.tables,
        program.actions,
        program.profiles,
        program.meters,
        program.counters,
        program.registers,
    )
    return [name.rpartition(".")[2] for kind in kinds for name in kind]


words = st.one_of(
    st.sampled_from(names()),
    st.sampled_from(["=>", "|", "&&&", "0", "1", "-1", "10.0.0.0/8", "1&&&1", "1->2", "1:1", "0x10", "true"]),
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=8),
)
lines = st.builds(
    lambda verb, rest: " ".join([verb, *rest]), st.sampled_from(VERBS), st.lists(words, max_size=7)
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=lines)
def test_a_line_of_any_words_ends_neither_the_program_nor_the_connection(
    shell: SimpleSwitchShell, line: str
) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert not shell.onecmd(line)
    assert shell.switch.call("get_time_elapsed_us") > 0


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=200))
def test_text_is_a_program_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        Program(text)


@settings(max_examples=200, deadline=None)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["name", "pipelines", "tables", "actions", "key", "type", "headers", "target"]
                ),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_json_of_another_shape_is_refused(value: object) -> None:
    import json

    with contextlib.suppress(ValueError):
        Program(json.dumps(value))


def is_closed(connection: socket.socket) -> bool:
    """The switch closes the connection without an answer."""
    connection.settimeout(30)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x10\x80\x01\x00\x01",  # a frame
        b"\x80\x01\x00\x01\x7f\xff\xff\xff",  # a name of 2 GiB
        b"\x80\x01\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x00\xff",  # no type of values
        b"\x80\x01\x00\x01\x00\x00\x00\x01a\x00\x00\x00\x00" + b"\x0c\x00\x01" * 20,  # structs in structs
    ],
    ids=["http", "frame", "long name", "type", "depth"],
)
def test_what_is_no_message_ends_its_connection_and_no_other(
    port: int, shell: SimpleSwitchShell, sent: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        assert is_closed(connection)
    assert shell.switch.call("get_time_elapsed_us") > 0


def test_connections_beyond_the_limit_are_closed_and_the_others_work(
    port: int, shell: SimpleSwitchShell
) -> None:
    with contextlib.ExitStack() as stack:
        # The shell has one of 64.
        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(64)]
        assert is_closed(connections[-1])
        assert shell.switch.call("get_time_elapsed_us") > 0


def test_a_client_that_stops_within_a_call_holds_up_no_other(port: int, shell: SimpleSwitchShell) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"\x80\x01\x00\x01\x00\x00\x00\x08stand")
        assert shell.switch.call("get_time_elapsed_us") > 0
