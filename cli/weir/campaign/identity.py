# SPDX-License-Identifier: Apache-2.0
"""What made a run: experiment, weir's version and commit, and the programs it ran, by digest."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weir.campaign.load import PlannedRun
from weir.cli.manifest import project_commit
from weir.topo.tools import find_own_program

_PROGRAMS = ("weir-switch", "weir-collector")
_ANALYSIS = "weir_core"


@dataclass(frozen=True)
class Software:
    """The software of a campaign; runs of different software are never mixed."""

    weir_version: str
    commit: str | None
    programs: Mapping[str, str]
    """First 16 hex digits of the SHA-256 of each compiled part."""

    def __str__(self) -> str:
        """In one line, for messages."""
        compiled = ", ".join(f"{name} {digest}" for name, digest in sorted(self.programs.items()))
        return f"weir {self.weir_version}, commit {self.commit or 'unknown'} ({compiled})"


def software() -> Software:
    """What would make a run now; raises ToolMissingError where a program is missing."""
    files = {name: find_own_program(name) for name in _PROGRAMS}
    core = importlib.util.find_spec(_ANALYSIS)
    if core is not None and core.origin is not None:
        files[_ANALYSIS] = Path(core.origin)
    return Software(
        weir_version=importlib.metadata.version("weir"),
        commit=project_commit(),
        programs={name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for name, path in files.items()},
    )


def identity_of(run: PlannedRun, made_by: Software) -> dict[str, Any]:
    """What a run's manifest says under `campaign`, as JSON has it; equal for runs that may be compared."""
    return {
        "run": run.key,
        "cell": dict(run.cell),
        "repeat": run.repeat,
        "config_digest": run.digest,
        "software": asdict(made_by) | {"programs": dict(made_by.programs)},
    }
