# SPDX-License-Identifier: Apache-2.0
"""The switch in virtual time, controlled with P4Runtime messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import weir_softswitch
from finsy.proto import p4i, p4r

from weir.controlplane.attach import HostPort
from weir.controlplane.config import parse_experiment
from weir.controlplane.given import Given, read_given
from weir.softswitch.errors import RequestRefusedError
from weir.softswitch.events import ControllerMessage, Event, SentFrame
from weir.softswitch.experiment import configuration_of

CPU_PORT = 510
"""Default CPU port: frames sent to it become packet-ins."""
DROP_PORT = 511
"""Default drop port: the egress port that v1model's ``mark_to_drop`` sets."""


class VirtualSwitch:
    """A switch whose time, in ns from 0, is advanced by the caller; it starts without a program.

    The caller is the only controller and the primary: election ids in requests are ignored. Requests that the
    switch refuses raise :class:`RequestRefusedError` with the code and text that a gRPC client would get.
    Requests may be of any class that serializes to the message, finsy's or those of PyPI's p4runtime.
    A time before the current one raises ValueError and changes nothing.
    """

    def __init__(
        self,
        ports: Mapping[int, str] | Iterable[int],
        *,
        seed: int = 1,
        cpu_port: int = CPU_PORT,
        drop_port: int = DROP_PORT,
        device_id: int = 1,
    ) -> None:
        """Make a switch.

        Args:
            ports: Port numbers, or port numbers with options for their egress as in ``weir-switch --port``
                (``"rate=10Mbit/s,burst=15kB,limit=64kB,delay=20ms"``; "" for none).
            seed: Seed of the program's random numbers and of the emulated links.
            cpu_port: Frames sent to this port become packet-ins.
            drop_port: The port number that means "drop".
            device_id: The id that requests must carry.

        Raises:
            ValueError: a port's number or options are invalid.
        """
        options = ports if isinstance(ports, Mapping) else dict.fromkeys(ports, "")
        self.device_id = device_id
        self.hosts: Mapping[str, HostPort] = {}
        """Port and addresses of each host of the experiment; empty without one."""
        self._switch = weir_softswitch.Switch(
            dict(options), seed=seed, cpu_port=cpu_port, drop_port=drop_port, device_id=device_id
        )

    @classmethod
    def of_experiment(cls, config: Given, phase: str | None = None) -> Self:
        """Make a switch as `weir run` configures its switch: weir's pipeline, policers, links, reports.

        Args:
            config: An experiment file, a shipped experiment's name, or an experiment's keys as a mapping.
            phase: The phase whose policers apply; by default the first.

        Raises:
            ConfigError: the experiment is not valid.
            PlanError: no such phase, or an experiment that does not fit the pipeline.
        """
        text, path = read_given(config)
        experiment = parse_experiment(text, str(path))
        found = configuration_of(experiment, phase)
        switch = cls(found.ports, seed=experiment.seed)
        switch.hosts = found.hosts
        switch.set_pipeline(found.p4info, found.program)
        switch.insert(*found.insert)
        if found.modify:
            switch.modify(*found.modify)
        return switch

    @property
    def now_ns(self) -> int:
        """The switch's time."""
        return self._switch.now_ns

    @property
    def next_event_ns(self) -> int | None:
        """The time of the next pending event, such as a queued frame's egress; None without one."""
        return self._switch.next_event_ns

    def process(self, port: int, frame: bytes, time_ns: int) -> list[Event]:
        """Process an arriving frame (Ethernet without FCS); the events up to ``time_ns``, in order."""
        return _events(self._switch.process(port, frame, time_ns))

    def process_batch(self, packets: Sequence[tuple[int, bytes, int]]) -> list[Event]:
        """:meth:`process` each (port, frame, time in ns) in order; none of them if a time goes back."""
        return _events(self._switch.process_batch(packets))

    def run_until(self, time_ns: int) -> list[Event]:
        """Advance the time; the events until then, in order. The number of steps makes no difference."""
        return _events(self._switch.run_until(time_ns))

    def run_until_idle(self, limit_ns: int) -> list[Event]:
        """Advance the time until no event is pending, but not beyond ``limit_ns``; the events until then."""
        events: list[Event] = []
        while (due_ns := self.next_event_ns) is not None and due_ns <= limit_ns:
            found = self.run_until(due_ns)
            events += found
            if not found and self.next_event_ns == due_ns:
                break
        return events

    def set_pipeline(self, p4info: p4i.P4Info, program: bytes) -> None:
        """Load ``program``, the JSON output of ``p4c-bm2-ss``, with empty tables."""
        config = p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=program)
        self.set_forwarding_pipeline_config(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=self.device_id,
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=config,
            )
        )

    def set_forwarding_pipeline_config(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """P4Runtime's SetForwardingPipelineConfig."""
        with _refusals():
            self._switch.set_pipeline(request.SerializeToString())

    def get_forwarding_pipeline_config(
        self, request: p4r.GetForwardingPipelineConfigRequest
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """P4Runtime's GetForwardingPipelineConfig."""
        with _refusals():
            response = self._switch.get_pipeline(request.SerializeToString())
        return p4r.GetForwardingPipelineConfigResponse.FromString(response)

    def capabilities(self, request: p4r.CapabilitiesRequest) -> p4r.CapabilitiesResponse:
        """P4Runtime's Capabilities."""
        with _refusals():
            response = self._switch.capabilities(request.SerializeToString())
        return p4r.CapabilitiesResponse.FromString(response)

    def write(self, request: p4r.WriteRequest) -> None:
        """P4Runtime's Write, at the current time."""
        with _refusals():
            self._switch.write(request.SerializeToString())

    def read(self, request: p4r.ReadRequest) -> list[p4r.Entity]:
        """P4Runtime's Read; the entities of all responses."""
        with _refusals():
            responses = self._switch.read(request.SerializeToString())
        return [entity for response in responses for entity in p4r.ReadResponse.FromString(response).entities]

    def insert(self, *entities: p4r.Entity) -> None:
        """Insert entities in one write."""
        self._update(p4r.Update.INSERT, entities)

    def modify(self, *entities: p4r.Entity) -> None:
        """Modify entities in one write."""
        self._update(p4r.Update.MODIFY, entities)

    def delete(self, *entities: p4r.Entity) -> None:
        """Delete entities in one write."""
        self._update(p4r.Update.DELETE, entities)

    def _update(self, kind: Any, entities: Iterable[p4r.Entity]) -> None:
        updates = [p4r.Update(type=kind, entity=entity) for entity in entities]
        self.write(p4r.WriteRequest(device_id=self.device_id, updates=updates))

    def send(self, message: p4r.StreamMessageRequest) -> list[Event]:
        """Send a packet-out or a digest acknowledgement at the current time; its immediate events."""
        with _refusals():
            return _events(self._switch.send(message.SerializeToString()))

    def stats(self) -> dict[str, Any]:
        """The switch's counters, in the format of ``weir-switch --stats``."""
        stats: dict[str, Any] = json.loads(self._switch.stats())
        return stats

    def port_stats(self, port: int) -> dict[str, int]:
        """Packets and bytes of a port: received, sent, dropped by its queue, queued; 0 for unknown ports."""
        return self._switch.port_stats(port)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except weir_softswitch.RequestError as error:
        raise RequestRefusedError.of(error) from None


def _events(events: Iterable[weir_softswitch.Frame | weir_softswitch.Message]) -> list[Event]:
    return [
        SentFrame(event.time_ns, event.port, event.frame)
        if isinstance(event, weir_softswitch.Frame)
        else ControllerMessage(event.time_ns, p4r.StreamMessageResponse.FromString(event.serialized))
        for event in events
    ]
