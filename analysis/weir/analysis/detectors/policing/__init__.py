# SPDX-License-Identifier: Apache-2.0
"""Detectors of a policer on the path of a single flow: do token buckets explain its losses?"""

from __future__ import annotations

from weir.analysis.detectors.policing.flach import detect_policing_flach
from weir.analysis.detectors.policing.own import detect_policing
from weir.analysis.detectors.policing.verdict import FlowVerdict, PolicingDetector, PolicingVerdict

POLICING_DETECTORS: dict[str, PolicingDetector] = {
    "policing": detect_policing,
    "policing-flach": detect_policing_flach,
}
"""Detectors of single flows by the name that `weir detect` uses."""

__all__ = ["POLICING_DETECTORS", "FlowVerdict", "PolicingDetector", "PolicingVerdict"]
