# SPDX-License-Identifier: Apache-2.0
"""What a run showed: ground truth against inference, the law of conservation, detectors, the report."""

from weir.analysis.detect import FlowChoiceError, detect
from weir.analysis.detectors import PAIR_DETECTORS, FlowEvents, UnknownDetectorError, pair_detector
from weir.analysis.losses import CaptureLosses, losses_of
from weir.analysis.manifest import RunFileError
from weir.analysis.models import Result
from weir.analysis.report import write_report
from weir.analysis.result import analyse
from weir.analysis.summary import print_summary, summary

__all__ = [
    "PAIR_DETECTORS",
    "CaptureLosses",
    "FlowChoiceError",
    "FlowEvents",
    "Result",
    "RunFileError",
    "UnknownDetectorError",
    "analyse",
    "detect",
    "losses_of",
    "pair_detector",
    "print_summary",
    "summary",
    "write_report",
]
