# SPDX-License-Identifier: Apache-2.0
"""The interface through which a run reports its progress."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Progress(Protocol):
    """Receives the steps of a run."""

    def step(self, text: str) -> None:
        """A step begins, such as "building hosts and links"."""

    def phase(self, name: str, duration_s: float) -> AbstractContextManager[None]:
        """A context manager around a phase, whose flows last about `duration_s` seconds."""
