# SPDX-License-Identifier: Apache-2.0
"""The connection to a switch as the rest of the control plane sees it, whatever protocol it speaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from weir.controlplane.entities import Count, Entity

Part = Literal["primary", "backup", "reader"]
"""primary: become it or fail; backup: wait until there is none, then become it; reader: read only, no bid."""
Update = tuple[str, Entity]
"""The operation (insert, modify or delete) and the entity."""
BATCH = 1000
"""Updates or reads per request: well below gRPC's default of 4 MiB per message."""


@dataclass(frozen=True, slots=True)
class EntriesOf:
    """Asks for all entries of a table."""

    table: str


@dataclass(frozen=True, slots=True)
class AllGroups:
    """Asks for all multicast groups."""


@dataclass(frozen=True, slots=True)
class AllSessions:
    """Asks for all clone sessions."""


@dataclass(frozen=True, slots=True)
class CellOf:
    """Asks for one cell of a meter."""

    meter: str
    index: int


@dataclass(frozen=True, slots=True)
class SettingsOf:
    """Asks for the settings of one port."""

    port: int


Asked = EntriesOf | AllGroups | AllSessions | CellOf | SettingsOf


@dataclass(frozen=True, slots=True)
class Running:
    """The program that a switch runs, compared with the one that is wanted."""

    ours: bool
    another: str | None = None
    """Describes another program that it runs; None if it runs none, or ours."""


class Digest(Protocol):
    """A list of new flows, each a mapping of field names to values."""

    @property
    def digest_id(self) -> str:
        """The name of the digest."""
        ...

    def __iter__(self) -> Iterator[Mapping[str, int]]:
        """Each flow of the list."""
        ...


class Program(Protocol):
    """The compiled program of a connection: the sizes of its objects."""

    def check_fits(self, phase: str, entities: Iterable[Entity]) -> None:
        """Raise TableFullError if a table or meter is too small for the entities of a phase."""
        ...

    def counter_size(self, name: str) -> int:
        """Number of cells of a counter."""
        ...

    def tables(self) -> tuple[str, ...]:
        """The tables that the control plane writes, of those that the program has."""
        ...


class Connection(Protocol):
    """A connection to one device; an async context manager. Every failure is a ControlPlaneError."""

    @property
    def address(self) -> str:
        """Address of the switch."""
        ...

    @property
    def device_id(self) -> int:
        """Id of the device."""
        ...

    @property
    def program(self) -> Program:
        """The program that is wanted."""
        ...

    async def __aenter__(self) -> Self:
        """Connect and take the part; a backup returns once it is primary.

        Raises:
            SwitchUnreachableError: nothing answers in time.
            WrongDeviceError: the switch has another device id.
            NotPrimaryError: another controller is primary.
        """
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close the connection; the switch keeps what was written."""
        ...

    async def running(self) -> Running:
        """What the switch runs."""
        ...

    async def push_pipeline(self) -> None:
        """Load the program; tables, meters and counters start empty.

        Raises:
            PipelineError: the switch refused it, or there is none to load.
            MaybeLoadedError: the connection broke, so it is not known whether the program was loaded.
            NotPrimaryError: another controller is primary.
        """
        ...

    async def write_batch(self, updates: Sequence[Update], *, atomic: bool = False) -> None:
        """Write updates in order; if ``atomic``, all or none, between two packets.

        Raises:
            WriteError: the switch refused updates; it has each with its reason. The others are on the switch,
                unless the write was ``atomic``.
            NotPrimaryError, SwitchUnreachableError: the connection can no longer write.
        """
        ...

    async def entities(self, asked: Sequence[Asked]) -> list[Entity]:
        """The entities that are asked for, without default entries.

        Raises:
            ReadError: the switch refused, or returned something that is not in the program.
            SwitchUnreachableError: the connection broke.
        """
        ...

    async def counts(self, counter: str, indices: Sequence[int]) -> dict[int, Count]:
        """The cells of a counter by index. Raises as :meth:`entities`, also for a cell that is missing."""
        ...

    async def announce_flows(self) -> None:
        """Make the switch send a digest for each new flow. Raises as :meth:`write_batch`."""
        ...

    async def next_digest(self) -> Digest:
        """Wait for the next digest. Raises as :meth:`entities`, and when no more will come."""
        ...

    async def until_lost(self) -> None:
        """Wait until the connection can no longer write, and raise the reason, as any write would then."""
        ...
