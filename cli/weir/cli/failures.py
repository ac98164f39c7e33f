# SPDX-License-Identifier: Apache-2.0
"""Turns exceptions into lines on stderr that begin with `weir:`, and into an exit code."""

from __future__ import annotations

import errno
import os
import sys

from typer import TyperException

from weir.analysis.classifier.network import ClassifierError
from weir.analysis.errors import (
    ClockError,
    FlowChoiceError,
    PathFilesError,
    UnknownDetectorError,
    UnknownScenarioError,
)
from weir.archive.errors import ArchiveError
from weir.campaign.errors import CampaignError
from weir.cli.errors import EXIT_BAD_INPUT, EXIT_DISK, EXIT_FAILED, InputError
from weir.controlplane.config import ConfigError
from weir.controlplane.errors import (
    CertificateError,
    ControlPlaneError,
    HalfwayError,
    NotPrimaryError,
    PipelineError,
    PlanError,
    ReadBackError,
    ReadError,
    SwitchUnreachableError,
    TableFullError,
    UnsupportedByTargetError,
    WriteError,
    WrongDeviceError,
)
from weir.controlplane.units import UnitError
from weir.kernel.errors import KernelError, KernelInputError
from weir.replay.errors import ReplayError
from weir.rundir.errors import RunFileError
from weir.testbed.errors import HostError
from weir.topo.hosts import TestbedError
from weir.topo.process import ProcessError
from weir.topo.program import DiskFullError
from weir.topo.sandbox import SandboxError
from weir.topo.script import ScriptError
from weir.topo.tcpdiag import TcpDiagError
from weir.topo.tools import ToolMissingError
from weir.topo.traffic import TrafficError

SWITCH_EXITS: tuple[tuple[type[ControlPlaneError], int], ...] = (
    (CertificateError, 8),
    (SwitchUnreachableError, 3),
    (WrongDeviceError, 4),
    (NotPrimaryError, 5),
    (PipelineError, 6),
    (TableFullError, 7),
    (PlanError, EXIT_BAD_INPUT),
    (UnsupportedByTargetError, EXIT_BAD_INPUT),
    (WriteError, 9),
    (ReadBackError, 9),
    (ReadError, 9),
)
"""Exit codes of control-plane errors; a class precedes its base classes."""
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


BAD_INPUT: tuple[type[Exception], ...] = (
    ArchiveError,
    CampaignError,
    ClassifierError,
    ConfigError,
    FlowChoiceError,
    InputError,
    KernelInputError,
    PathFilesError,
    ReplayError,
    RunFileError,
    ScriptError,
    UnitError,
    UnknownDetectorError,
    UnknownScenarioError,
)
"""Errors of the files and arguments that the user gave."""

FAILURES: tuple[type[Exception], ...] = (
    ClockError,
    ControlPlaneError,
    HostError,
    KernelError,
    OSError,
    ProcessError,
    SandboxError,
    TcpDiagError,
    TestbedError,
    ToolMissingError,
    TrafficError,
)
"""Errors that occur while a command runs."""

EXPECTED_ERRORS = BAD_INPUT + FAILURES
"""Errors that users can fix; any other is a programming error."""


def report_error(error: Exception) -> int:
    """Print an error on stderr, one `weir:` line per problem; returns the exit code."""
    if isinstance(error, TyperException):
        # Typer checks values with pydantic, which puts these words before what a check says.
        message = error.format_message().replace(": Value error, ", ": ", 1)
        return _say(f"{message} {_help_hint(error)}".strip(), error.exit_code)
    if isinstance(error, OSError):
        # str() of an OSError begins with its number.
        what = error.strerror or str(error)
        code = EXIT_DISK if error.errno in _DISK else EXIT_FAILED
        return _say(f"{error.filename}: {what}" if error.filename else what, code)
    if isinstance(error, BAD_INPUT) or is_capture_error(error):
        return _say(str(error), EXIT_BAD_INPUT)
    if isinstance(error, ControlPlaneError):
        return _say(str(error), switch_exit(error))
    if isinstance(error, FAILURES):
        return _say(str(error), EXIT_DISK if isinstance(error, DiskFullError) else EXIT_FAILED)
    if wants_traceback():
        raise error
    return _say(
        f"internal error: {type(error).__name__}: {error}; WEIR_DEBUG=1 shows where, please report it",
        EXIT_FAILED,
    )


def switch_exit(error: ControlPlaneError) -> int:
    """The exit code of a control-plane error; for a HalfwayError that of its cause."""
    cause = error.cause if isinstance(error, HalfwayError) else error
    if isinstance(cause, WriteError) and any(update.full for update in cause.updates):
        cause = TableFullError(str(cause))
    return next((code for kind, code in SWITCH_EXITS if isinstance(cause, kind)), EXIT_FAILED)


def is_capture_error(error: Exception) -> bool:
    """Whether `error` is a weir_core.CaptureError; does not import weir_core, which is slow."""
    core = sys.modules.get("weir_core")
    return core is not None and isinstance(error, core.CaptureError)


def wants_traceback() -> bool:
    """Whether tracebacks are enabled (WEIR_DEBUG=1)."""
    return os.environ.get("WEIR_DEBUG", "") not in ("", "0")


def _help_hint(error: TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"Try '{context.command_path} --help'." if context is not None else ""


def _say(text: str, exit_code: int) -> int:
    for line in text.splitlines() or [""]:
        print(f"weir: {line}", file=sys.stderr)
    return exit_code
