# SPDX-License-Identifier: Apache-2.0
"""The end of a run, in real or virtual time, and its record where no half of the run made one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import State
from weir.rundir.manifest_file import ManifestFile

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


@contextmanager
def end_recorded(run_dir: Path) -> Iterator[None]:
    """Record the error or Ctrl-C that ends the block, if the run has no end in its manifest yet.

    No process of the run may be left when the block ends.
    """
    try:
        yield
    except KeyboardInterrupt:
        _end(run_dir, "interrupted", STOPPED_EARLY)
        raise
    except Exception as error:
        _end(run_dir, "failed", f"{type(error).__name__}: {error}")
        raise


def _end(run_dir: Path, state: State, error: str) -> None:
    if not RunDirectory(run_dir).manifest.is_file():
        return
    manifest = ManifestFile.load(run_dir)
    if manifest.state == "running":
        manifest.end_if_possible(state, error)
