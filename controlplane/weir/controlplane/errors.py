# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between an experiment and a switch; each error keeps what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class ControlPlaneError(Exception):
    """Any failure of the control plane; its text is one or more lines for a reader."""


class PlanError(ControlPlaneError):
    """The experiment cannot be put on the pipeline; found before anything is written."""


class TableFullError(PlanError):
    """The switch has no room for the entries that an experiment needs."""


class PipelineError(ControlPlaneError):
    """The compiled pipeline is missing, unreadable, not the one expected, or refused by the switch."""


class SwitchUnreachableError(ControlPlaneError):
    """No P4Runtime server answers at the address, or the connection broke."""


class CertificateError(SwitchUnreachableError):
    """There is a switch, but one side does not trust the other's certificate."""


class WrongDeviceError(ControlPlaneError):
    """The switch at the address has another device id."""


class NotPrimaryError(ControlPlaneError):
    """Another controller has the higher election id, so that the switch refuses our writes."""


class UnsupportedByTargetError(ControlPlaneError):
    """The experiment asks for something that the target does not declare."""


@dataclass(frozen=True, slots=True)
class RefusedUpdate:
    """One update that the switch refused: which entity, and its gRPC code and message."""

    operation: str
    entity: str
    code: str
    message: str

    @property
    def full(self) -> bool:
        """Whether there was no room."""
        return self.code == "RESOURCE_EXHAUSTED"

    def __str__(self) -> str:
        """One line: operation, entity, reason."""
        return f"{self.operation} {self.entity}: {self.code}{f': {self.message}' if self.message else ''}"


class WriteError(ControlPlaneError):
    """The switch refused updates; ``updates`` has each with its reason.

    ``each``: the switch answered for each update; without it, for the request as a whole.
    """

    def __init__(self, updates: Sequence[RefusedUpdate], *, each: bool = True) -> None:
        """Keep the updates; the message is one line per update."""
        self.updates, self.each = tuple(updates), each
        super().__init__("the switch refused " + "; ".join(str(update) for update in updates))


class HalfwayError(ControlPlaneError):
    """A change of the switch that stopped on its way; the text says what is known of it.

    ``cause`` is why it stopped.
    """

    def __init__(self, cause: ControlPlaneError, state: str) -> None:
        """Keep the cause; ``state`` is what the switch is left as, and what to do."""
        self.cause = cause
        super().__init__(f"{cause}; {state}")


class MaybeLoadedError(HalfwayError):
    """The connection broke while the pipeline was loaded."""

    def __init__(self, cause: ControlPlaneError) -> None:
        """Keep the cause."""
        super().__init__(
            cause,
            "nobody knows whether the pipeline was loaded, which empties tables and counters; "
            "valid: apply again",
        )


class PartlyAppliedError(HalfwayError):
    """A plan could not be written; the text says what of it is on the switch."""

    def __init__(self, cause: ControlPlaneError, applied: int, total: int, certain: bool) -> None:
        """Keep the cause; not ``certain``: whether the batch that failed took effect is not known."""
        self.applied, self.total = applied, total
        if applied == 0 and certain:
            state = "nothing was changed"
        elif applied == total:
            state = f"all {total} updates were written, and nobody read them back; valid: apply again"
        else:
            known = (
                f"{applied} of {total} updates are on the switch, the others are not"
                if certain
                else f"at least {applied} of {total} updates are on the switch, of the others nobody knows"
            )
            state = f"{known}; traffic stays policed by what was there; valid: mend the cause and apply again"
        super().__init__(cause, state)


class ReadError(ControlPlaneError):
    """The switch refused a read or answered with something else than what was asked for."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one entity in which the switch and the plan differ."""

    entity: str
    field: str
    expected: str
    got: str

    def __str__(self) -> str:
        """One line: entity, field, both values."""
        return f"{self.entity}: {self.field}: expected {self.expected}, got {self.got}"


class ReadBackError(ControlPlaneError):
    """The switch accepted every write and then read back something else; ``differences`` has each field."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        """Keep the differences; the message is one line per difference."""
        self.differences = tuple(differences)
        super().__init__("the switch reads back differently: " + "; ".join(str(item) for item in differences))
