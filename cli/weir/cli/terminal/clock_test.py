# SPDX-License-Identifier: Apache-2.0
import io

from rich.console import Console

from weir.cli.terminal.clock import VirtualClock


def test_the_times_are_printed_at_the_end_and_without_a_terminal_only_then() -> None:
    shown = io.StringIO()
    with VirtualClock(Console(file=shown), shown=True) as clock:
        clock.tick(1.0)
        clock.tick(42.0)
        assert shown.getvalue() == ""
    assert shown.getvalue() == "  virtual time 42 s, wall time 0 s\n"


def test_a_run_that_never_began_prints_nothing() -> None:
    shown = io.StringIO()
    with VirtualClock(Console(file=shown), shown=True):
        pass
    assert shown.getvalue() == ""
