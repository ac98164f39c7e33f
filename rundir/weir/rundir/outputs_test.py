# SPDX-License-Identifier: Apache-2.0
import io
import sys

import pytest

from weir.rundir.outputs import print_any_character


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_characters_that_an_encoding_lacks_are_printed_as_question_marks(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, stream, io.TextIOWrapper(printed, encoding="iso-8859-1", errors="strict"))
    print_any_character()
    print("10–20 µs → done", file=getattr(sys, stream), flush=True)
    assert printed.getvalue().decode("iso-8859-1") == "10?20 µs ? done\n"


def test_utf_8_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="utf-8"))
    print_any_character()
    print("10–20 µs → done", flush=True)
    assert printed.getvalue().decode() == "10–20 µs → done\n"


def test_streams_without_an_encoding_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", None)
    print_any_character()
