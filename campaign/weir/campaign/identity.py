# SPDX-License-Identifier: Apache-2.0
"""The identity of a run: digests of its experiment and programs, and weir's version and commit."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

from weir.campaign.load import PlannedRun
from weir.rundir.manifest import CampaignRun, Software
from weir.rundir.software import project_commit, weir_version
from weir.topo.tools import find_own_program

_PROGRAMS = ("weir-switch", "weir-collector")
_ANALYSIS = "weir_core"


def software() -> Software:
    """The software that is installed now; raises ToolMissingError where a program is missing."""
    files = {name: find_own_program(name) for name in _PROGRAMS}
    core = importlib.util.find_spec(_ANALYSIS)
    if core is not None and core.origin is not None:
        files[_ANALYSIS] = Path(core.origin)
    return Software(
        weir_version=weir_version(),
        commit=project_commit(),
        programs={name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for name, path in files.items()},
    )


def identity_of(run: PlannedRun, made_by: Software) -> CampaignRun:
    """The identity that a run's manifest records under `campaign`."""
    return CampaignRun(
        run=run.key,
        cell=dict(run.cell),
        repeat=run.repeat,
        config_digest=run.digest,
        software=made_by,
    )
