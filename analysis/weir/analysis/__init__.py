# SPDX-License-Identifier: Apache-2.0
"""Analysis of a run: inferred losses against the ground truth, packet conservation, detectors, the report.

Names are imported on first use, so that counting the losses of a capture does not load scipy. A function
named like its module, `detect.detect`, is imported from that module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.analysis.detectors import PAIR_DETECTORS, FlowEvents, pair_detector
    from weir.analysis.errors import FlowChoiceError, UnknownDetectorError
    from weir.analysis.losses import CaptureLosses, losses_of
    from weir.analysis.models import Result
    from weir.analysis.report import write_report
    from weir.analysis.result import analyse
    from weir.rundir.errors import RunFileError

__all__ = [
    "PAIR_DETECTORS",
    "CaptureLosses",
    "FlowChoiceError",
    "FlowEvents",
    "Result",
    "RunFileError",
    "UnknownDetectorError",
    "analyse",
    "losses_of",
    "pair_detector",
    "write_report",
]

_MODULES = {
    "detectors": ("PAIR_DETECTORS", "FlowEvents", "pair_detector"),
    "errors": ("FlowChoiceError", "UnknownDetectorError"),
    "losses": ("CaptureLosses", "losses_of"),
    "models": ("Result",),
    "report": ("write_report",),
    "result": ("analyse",),
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
_MODULE_OF["RunFileError"] = "weir.rundir.errors"


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
