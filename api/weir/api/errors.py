# SPDX-License-Identifier: Apache-2.0
"""The errors of `weir.run`, and of optional packages."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


class RunFailedError(Exception):
    """A run failed; `path` is its directory with the logs, `reason` the error that its manifest records."""

    def __init__(self, path: Path, reason: str) -> None:
        """Keep directory and reason."""
        super().__init__(f"the run failed: {reason}; what it wrote is in {path}")
        self.path, self.reason = path, reason


class RunInterrupted(KeyboardInterrupt):
    """A run was stopped, by Ctrl-C, a notebook's stop button or SIGTERM; `path` is its directory.

    It is a KeyboardInterrupt, so that `except Exception` in a loop over runs does not swallow it.
    """

    def __init__(self, path: Path, reason: str) -> None:
        """Keep directory and reason."""
        super().__init__(f"{reason}; what the run wrote is in {path}")
        self.path, self.reason = path, reason


def optional(package: str) -> Any:
    """Import a package of the extra `notebook`; raises ImportError with the command that installs it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{package} is not installed; install it with: pip install 'weir-policer[notebook]'"
        ) from error
