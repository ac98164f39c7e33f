# SPDX-License-Identifier: Apache-2.0
"""Keeps a switch as planned: reconnects, takes over as primary, applies again, and assigns learned flows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weir.controlplane.apply import SwitchControl
from weir.controlplane.connection import Part
from weir.controlplane.counters import PolicerCounters
from weir.controlplane.errors import (
    ControlPlaneError,
    HalfwayError,
    NotPrimaryError,
    SwitchUnreachableError,
)
from weir.controlplane.following import FlowFollower
from weir.controlplane.phase_plan import PhasePlan
from weir.controlplane.together import together

RETRY_S = 0.05
"""Pause between attempts to reach an unreachable switch."""
_PROBE_TIMEOUT_S = 1.0
_SUPERSEDED_S = 1.0
"""Pause between attempts to become primary again after another controller took over."""
_READINGS_PER_CHECK = 10
"""Counter readings per comparison of all entities, which takes longer."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a kept switch; the values of ``details`` can be written as JSON."""

    kind: str
    realtime_ns: int
    details: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """The event as a line of a log."""
        return {"event": self.kind, "realtime_ns": self.realtime_ns, **self.details}


async def _nothing() -> None:
    pass


class Keeper:
    """Keeps one switch in the state of one phase, until cancelled or until an error needs a person."""

    def __init__(
        self,
        address: str,
        connect: Callable[[Part], SwitchControl],
        phase: PhasePlan,
        say: Callable[[Event], None],
        *,
        backup: bool = False,
        load_pipeline: bool = False,
        reading_s: float = 1.0,
        beside: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """``connect`` makes a controller that is not yet entered; ``say`` is called with each event.

        ``beside`` sets what P4Runtime does not cover, while the switch is configured.
        """
        self._address = address
        self._connect, self._phase, self._say = connect, phase, say
        self._part: Part = "backup" if backup else "primary"
        self._load, self._reading_s, self._beside = load_pipeline, reading_s, beside
        self._last: dict[str, PolicerCounters] = {}
        self._last_ns = 0

    async def run(self) -> None:
        """Keep the switch.

        Raises:
            NotPrimaryError: another controller was primary from the start, and this is not a backup.
            ControlPlaneError: the switch refuses an update, or is another device than configured.
        """
        reached = True
        while True:
            wait_s, was_primary = RETRY_S, self._part == "primary"
            try:
                if self._part == "backup" and reached:
                    self._emit("waiting")
                async with self._connect(self._part) as control:
                    reached = was_primary = True
                    await self._keep(control)
            except ControlPlaneError as error:
                cause = error.cause if isinstance(error, HalfwayError) else error
                if isinstance(cause, NotPrimaryError) and self._last_ns:
                    if was_primary:
                        self._emit("superseded", reason=str(cause))
                    self._part, wait_s = "backup", _SUPERSEDED_S
                elif type(cause) is not SwitchUnreachableError:
                    raise
                elif reached:
                    reached = False
                    self._emit("lost", reason=str(error))
            await asyncio.sleep(wait_s)
            if not reached:
                await _wait_for_listener(self._address)

    async def _keep(self, control: SwitchControl) -> None:
        address, device = control.session.address, control.session.device_id
        self._emit("primary", switch=address, device_id=device)
        loaded = await self._ensure_pipeline(control)
        # When a backup takes over, the settings outside P4Runtime are as the previous primary left them.
        beside = self._beside if loaded or self._part == "primary" else _nothing
        update, _ = await asyncio.gather(control.apply(self._phase), beside())
        counters = await control.read_policers(self._phase)
        if loaded and self._last_ns:
            self._discontinuity(counters)
        self._remember(counters)
        self._emit("configured", pipeline_loaded=loaded, updates=len(update))
        follower = FlowFollower(control, self._phase)
        coroutines = [control.session.until_lost(), self._read(control, follower)]
        if follower.status():
            await follower.start()
            coroutines.append(follower.run())
        await together(*coroutines)

    async def _ensure_pipeline(self, control: SwitchControl) -> bool:
        """Load the pipeline unless the switch runs it; returns whether it was loaded."""
        if await control.runs_pipeline(or_another=self._load):
            return False
        await control.push_pipeline()
        return True

    async def _read(self, control: SwitchControl, follower: FlowFollower) -> None:
        reading = 0
        exhausted: dict[str, int] = {}
        while True:
            await asyncio.sleep(self._reading_s)
            counters = await control.read_policers(self._phase)
            if any(self._decreased(name, count) for name, count in counters.items()):
                self._discontinuity(counters)
            self._remember(counters)
            for name, status in follower.status().items():
                if status.flows_without_cell > exhausted.get(name, 0):
                    self._emit("exhausted", policer=name, flows_without_cell=status.flows_without_cell)
                exhausted[name] = status.flows_without_cell
            reading += 1
            if reading % _READINGS_PER_CHECK == 0:
                update = await control.apply(self._phase)
                if len(update):
                    self._emit("repaired", updates=len(update))

    def _decreased(self, name: str, counters: PolicerCounters) -> bool:
        return name in self._last and counters.packets_met < self._last[name].packets_met

    def _remember(self, counters: dict[str, PolicerCounters]) -> None:
        self._last, self._last_ns = counters, time.time_ns()

    def _discontinuity(self, counters: Mapping[str, PolicerCounters]) -> None:
        """Emit the counters before and after a reset, or those of the last reading would be lost."""
        self._emit(
            "discontinuity",
            last_read_ns=self._last_ns,
            before={name: count.as_manifest() for name, count in self._last.items()},
            after={name: count.as_manifest() for name, count in counters.items()},
        )

    def _emit(self, kind: str, **details: Any) -> None:
        self._say(Event(kind, time.time_ns(), details))


async def _wait_for_listener(address: str) -> None:
    """Wait until the switch's port accepts connections. gRPC itself would back off, up to 15 s."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), port)
        except (OSError, TimeoutError):
            await asyncio.sleep(RETRY_S)
            continue
        writer.close()
        return
