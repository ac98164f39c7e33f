# SPDX-License-Identifier: Apache-2.0
"""The tables of `weir status`; `switch_commands_test.py` tests its JSON."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from weir.cli.status import port_name, table_of
from weir.controlplane.entities import Link
from weir.controlplane.links_service import PortState


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


@pytest.mark.parametrize(("up", "shown"), [(True, "2 client near"), (False, "2 client near (down)")])
def test_a_port_whose_interface_is_down_or_gone_is_marked(up: bool, shown: str) -> None:
    assert port_name(2, ("client", "near"), PortState(Link(2), up, 0, 0, 0, 0, 0)) == shown


def test_a_port_of_a_switch_that_does_not_tell_its_state_has_no_mark() -> None:
    assert port_name(2, ("client",), None) == "2 client"
