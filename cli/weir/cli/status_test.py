# SPDX-License-Identifier: Apache-2.0
"""The tables of `weir status`; `switch_commands_test.py` tests its JSON."""

from __future__ import annotations

import io

from rich.console import Console

from weir.cli.status import table_of


def test_columns_that_are_empty_in_every_row_take_no_room() -> None:
    heads = ("policer", "rate", "burst", "effective", "green", "yellow", "red", "passed/s", "red/s", "queue")
    once = ("downlink", "10 Mbit/s", "25 kB", "9.999 Mbit/s", "123,456", "0", "12,345", "", "", "0 B")
    screen = Console(width=80, file=io.StringIO())
    screen.print(table_of("phase main", heads, [once]))
    printed = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in printed
    assert "passed/s" not in printed
    assert all(text in printed for text in (*heads[:7], "queue", "downlink", "123,456", "12,345"))


def test_a_column_that_one_row_fills_is_shown_of_all() -> None:
    screen = Console(width=80, file=io.StringIO())
    screen.print(table_of("ports", ("port", "in", "lost"), [("1 a", "", ""), ("2 b", "", "7")]))
    printed = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "lost" in printed
    assert " in " not in printed
    assert "1 a" in printed
