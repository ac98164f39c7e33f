# SPDX-License-Identifier: Apache-2.0
"""What a run showed: ground truth against inference, the law of conservation, detectors, the report.

The names are loaded when they are asked for: who counts the losses of a capture needs no statistics.
A function with the name of its module, `detect.detect`, is imported from the module.
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
