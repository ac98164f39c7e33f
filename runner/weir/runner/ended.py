# SPDX-License-Identifier: Apache-2.0
"""The end of a run, in real or virtual time."""

from __future__ import annotations

from dataclasses import dataclass

STOPPED = (130, 143)
"""Exit statuses of a sandbox's program that was asked to stop."""
STOPPED_EARLY = "the run was stopped early"


@dataclass(frozen=True)
class Ended:
    """How a run ended: the manifest's state and error, and the exit status of the sandbox's program."""

    state: str
    error: str | None
    exit_status: int
    problem: str | None
    """Set if the program died before it recorded its end."""

    @property
    def complete(self) -> bool:
        """Whether the run reached its end."""
        return self.state == "complete"
