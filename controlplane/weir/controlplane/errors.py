# SPDX-License-Identifier: Apache-2.0
"""The errors of the control plane; each keeps the updates, differences or cause that it reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ControlPlaneError(Exception):
    """Any failure of the control plane; its text is one or more lines for the user."""


class PlanError(ControlPlaneError):
    """The experiment does not fit the pipeline; raised before anything is written."""


class TableFullError(PlanError):
    """The switch's tables or meters are too small for the experiment."""


class PipelineError(ControlPlaneError):
    """The compiled pipeline is missing, unreadable, not the one expected, or refused by the switch."""


class SwitchUnreachableError(ControlPlaneError):
    """No P4Runtime server answers at the address, or the connection broke."""


class CertificateError(SwitchUnreachableError):
    """A switch answers, but one side does not trust the other's certificate."""


class WrongDeviceError(ControlPlaneError):
    """The switch at the address has another device id."""


class NotPrimaryError(ControlPlaneError):
    """Another controller has the higher election id, so that the switch refuses our writes."""


class UnsupportedByTargetError(ControlPlaneError):
    """The experiment needs a capability that the target does not declare."""


@dataclass(frozen=True, slots=True)
class RefusedUpdate:
    """One update that the switch refused: which entity, and its gRPC code and message."""

    operation: str
    entity: str
    code: str
    message: str

    @property
    def full(self) -> bool:
        """Whether the table or meter was full."""
        return self.code == "RESOURCE_EXHAUSTED"

    def __str__(self) -> str:
        """One line: operation, entity, reason."""
        return f"{self.operation} {self.entity}: {self.code}{f': {self.message}' if self.message else ''}"


class WriteError(ControlPlaneError):
    """The switch refused updates; ``updates`` has each with its reason.

    ``each``: the switch reported an error per update; if False, one for the whole request.
    """

    def __init__(self, updates: Sequence[RefusedUpdate], *, each: bool = True) -> None:
        """Keep the updates; the message is one line per update."""
        self.updates, self.each = tuple(updates), each
        super().__init__("the switch refused " + "; ".join(str(update) for update in updates))


class HalfwayError(ControlPlaneError):
    """A change of the switch that stopped halfway because of ``cause``; the text says what is known."""

    def __init__(self, cause: ControlPlaneError, state: str) -> None:
        """Keep the cause; ``state`` says in which state the switch is, and what to do."""
        self.cause = cause
        super().__init__(f"{cause}; {state}")


class MaybeLoadedError(HalfwayError):
    """The connection broke while the pipeline was being loaded."""

    def __init__(self, cause: ControlPlaneError) -> None:
        """Keep the cause."""
        super().__init__(
            cause,
            "it is not known whether the pipeline was loaded, which empties tables and counters; "
            "valid: apply again",
        )


class PartlyAppliedError(HalfwayError):
    """A plan was not written completely; the text says how much of it is on the switch."""

    def __init__(self, cause: ControlPlaneError, applied: int, total: int, certain: bool) -> None:
        """Keep the cause; ``certain`` is False if the failed batch may have taken effect."""
        self.applied, self.total = applied, total
        if applied == 0 and certain:
            state = "nothing was changed"
        elif applied == total:
            state = f"all {total} updates were written but not read back; valid: apply again"
        else:
            known = (
                f"{applied} of {total} updates are on the switch, the others are not"
                if certain
                else f"at least {applied} of {total} updates are on the switch, the others are not known"
            )
            state = f"{known}; traffic stays policed by the old entries; valid: fix the cause and apply again"
        super().__init__(cause, state)


class ReadError(ControlPlaneError):
    """The switch refused a read, or answered with something other than requested."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one entity that differs between switch and plan."""

    entity: str
    field: str
    expected: str
    got: str

    def __str__(self) -> str:
        """One line: entity, field, both values."""
        return f"{self.entity}: {self.field}: expected {self.expected}, got {self.got}"


class ReadBackError(ControlPlaneError):
    """The switch accepted every write but reads back other values; ``differences`` has each field."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        """Keep the differences; the message is one line per difference."""
        self.differences = tuple(differences)
        super().__init__("the switch reads back differently: " + "; ".join(str(item) for item in differences))
