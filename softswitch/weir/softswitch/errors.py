# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the switch in virtual time, besides ValueError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from finsy.proto import p4r, rpc_code, rpc_status
from google.protobuf.message import Message
from weir_softswitch import RequestError


@dataclass(frozen=True, slots=True)
class RefusedElement:
    """One update of a write, or one query of a read, that was refused."""

    index: int
    """Its index in the request, from 0."""
    code: str
    """The canonical gRPC code, such as INVALID_ARGUMENT."""
    message: str


class RequestRefusedError(Exception):
    """A P4Runtime request was refused; ``elements`` holds the updates or queries at fault."""

    def __init__(self, code: str, message: str, elements: Sequence[RefusedElement] = ()) -> None:
        """Keep the canonical code, the switch's text, and the elements."""
        self.code = code
        self.elements = tuple(elements)
        lines = [f"{code}: {message}"]
        lines += [f"  element {item.index}: {item.code}: {item.message}" for item in elements]
        super().__init__("\n".join(lines))

    @classmethod
    def of(cls, error: RequestError) -> Self:
        """Decode the details of an error's status."""
        status = rpc_status.Status.FromString(error.details)
        elements = []
        for index, detail in enumerate(status.details):
            element: Message = p4r.Error()
            if detail.Unpack(element) and isinstance(element, p4r.Error) and element.canonical_code:
                elements.append(RefusedElement(index, _name(element.canonical_code), element.message))
        return cls(_name(error.code), error.message, elements)


def _name(code: int) -> str:
    return next((name for name, value in rpc_code.Code.items() if value == code), str(code))
