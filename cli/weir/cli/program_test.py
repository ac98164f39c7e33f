# SPDX-License-Identifier: Apache-2.0
import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from weir.cli.errors import EXIT_INTERRUPTED
from weir.cli.program import main


class CtrlC:
    """A finder of modules in whose time the user presses Ctrl-C."""

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> None:
        """Interrupt the import of the commands."""
        if name == "weir.cli.main":
            raise KeyboardInterrupt


def test_ctrl_c_while_the_commands_are_loaded_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "weir.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [CtrlC(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == EXIT_INTERRUPTED
