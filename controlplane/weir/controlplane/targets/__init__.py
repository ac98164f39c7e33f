# SPDX-License-Identifier: Apache-2.0
"""The kinds of switches behind one interface, each with its declared capabilities."""

from weir.controlplane.targets.registry import TARGETS, lacks, lacks_in_a_run, target_of
from weir.controlplane.targets.target import Capabilities, Effective, Target

__all__ = [
    "TARGETS",
    "Capabilities",
    "Effective",
    "Target",
    "lacks",
    "lacks_in_a_run",
    "target_of",
]
