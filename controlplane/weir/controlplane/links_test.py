# SPDX-License-Identifier: Apache-2.0
"""Links of ports: planned from an experiment, read from the switch, and written where they differ."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from finsy import GRPCStatusCode

from weir.controlplane.apply import SwitchControl
from weir.controlplane.attach import attachment_of
from weir.controlplane.config import parse_experiment
from weir.controlplane.entities import Link, changes
from weir.controlplane.errors import PartlyAppliedError, PlanError, ReadError
from weir.controlplane.links_service import FIELDS, MESSAGES
from weir.controlplane.plan import Plan, make_plan
from weir_tests.controlplane.p4runtime_server import P4RuntimeServer

PROTO = Path(__file__).parents[3] / "softswitch/links/proto/weir/links/v1/links.proto"
SHAPED = """\
name: shaped
hosts:
  a: {delay: 5 ms, jitter: 1 ms, loss: 0.5 %}
  b: {rate: 50 Mbit/s, burst: 20 kB, queue: 90 kB, queue_packets: 60}
  c: {rate: 50 Mbit/s}
  d: {rate: 8 Mbit/s, line_rate: 1 Gbit/s}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""
A, B = (
    Link(1, delay_ns=5 * 10**6, jitter_ns=10**6, loss_ppb=5_000_000),
    Link(2, 50_000_000, 20_000, 90_000, 60, 5),
)


def planned() -> Plan:
    experiment = parse_experiment(SHAPED)
    return make_plan(experiment, attachment_of(experiment))


def test_a_change_of_a_link_changes_that_link_only_and_its_queue_holds_what_it_held() -> None:
    text = SHAPED + (
        "phases:\n  - name: one\n    changes:\n"
        "      - {at: 200 ms, host: b, rate: 5 Mbit/s}\n"
        "      - {at: 300 ms, host: a, delay: 7 ms, loss: 0 %}\n"
    )
    experiment = parse_experiment(text)
    phase = make_plan(experiment, attachment_of(experiment)).phase("one")
    first, second = (step.plan for step in phase.steps)
    assert changes(phase.entities, first.entities).modify == (replace(B, rate_bps=5_000_000),)
    assert changes(first.entities, second.entities).modify == (replace(A, delay_ns=7 * 10**6, loss_ppb=0),)
    assert second.link_to("b").rate_bps == 5_000_000


def bare(*ports: int) -> dict[int, Any]:
    return {port: MESSAGES["Link"]() for port in ports}


def on(server: P4RuntimeServer, action: Callable[[SwitchControl], Awaitable[None]]) -> None:
    async def session() -> None:
        async with server, SwitchControl(server.address) as control:
            await control.push_pipeline()
            await action(control)

    asyncio.run(session())


def test_each_port_has_the_link_of_its_host_and_queues_deflect_to_the_collector() -> None:
    links = [entity for entity in planned().phase("main").entities if isinstance(entity, Link)]
    assert links == [
        A,
        B,
        # Defaults: a queue of 256 kB, and a bucket of 1 ms (50 Mbit/s are 6250 B/ms) but at least 3 kB.
        Link(3, 50_000_000, 6_250, 256_000, None, 5),
        Link(4, 8_000_000, 3_000, 256_000, None, 5, line_rate_bps=10**9),
        Link(5),
    ]


def test_links_are_set_once_and_settings_outside_the_file_stay() -> None:
    server, phase = P4RuntimeServer(links=bare(1, 2, 3, 4, 5)), planned().phase("main")
    assert server.links is not None
    server.links[1].line_rate_bps = 10**9
    server.links[1].queues.add(priority=7, limit_bytes=64_000)

    async def twice(control: SwitchControl) -> None:
        update = await control.apply(phase)
        assert [entity for entity in update.modify if isinstance(entity, Link)][:2] == [A, B]
        assert len(await control.apply(phase)) == 0

    on(server, twice)
    assert not server.links[1].HasField("line_rate_bps")
    assert server.links[4].line_rate_bps == 10**9
    assert [queue.priority for queue in server.links[1].queues] == [7]
    assert (server.links[2].shaper.rate_bps, server.links[2].shaper.burst_bytes) == (50_000_000, 20_000)


def test_a_link_changed_by_others_is_found_and_restored() -> None:
    server, phase = P4RuntimeServer(links=bare(1, 2, 3, 4, 5)), planned().phase("main")

    async def change(control: SwitchControl) -> None:
        await control.apply(phase)
        assert server.links is not None
        server.links[2].shaper.rate_bps = 1_000_000
        server.links[5].delay_ns = 1
        update = await control.apply(phase)
        assert [entity.key for entity in update.modify] == ["link of port 2", "link of port 5"]
        assert update.replaced["link of port 2"].fields()["rate"] == "1 Mbit/s"
        assert len(await control.difference(phase)) == 0

    on(server, change)


def test_a_missing_port_is_named_before_anything_is_written() -> None:
    server = P4RuntimeServer(links=bare(1, 3))

    async def apply(control: SwitchControl) -> None:
        with pytest.raises(
            PlanError, match=r"link of port 2: the switch at .* has no such port; valid: .*1, 3"
        ):
            await control.apply(planned().phase("main"))

    on(server, apply)
    assert server.writes == []


def test_a_switch_without_the_service_is_named() -> None:
    async def apply(control: SwitchControl) -> None:
        with pytest.raises(ReadError, match="has no links service; valid: weir-switch, or another "):
            await control.apply(planned().phase("main"))

    on(P4RuntimeServer(links=None), apply)


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_whichever_link_is_refused_the_error_says_what_is_on_the_switch(failing: int) -> None:
    server, phase = P4RuntimeServer(links=bare(1, 2, 3, 4, 5)), planned().phase("main")
    server.refuse_link = lambda port: (GRPCStatusCode.INTERNAL, "injected") if port == failing else None

    async def apply(control: SwitchControl) -> None:
        total = len(await control.difference(phase))
        with pytest.raises(PartlyAppliedError) as error:
            await control.apply(phase)
        done = total - 4 + failing - 1
        said = f"set link of port {failing}: INTERNAL: injected; {done} of {total} updates are on the switch"
        assert said in str(error.value)
        server.refuse_link = lambda _port: None
        assert len(await control.apply(phase)) == total - done

    on(server, apply)


def test_the_messages_are_those_of_the_service() -> None:
    """Each field that is described in code has the name, number and type of the .proto file."""
    text = PROTO.read_text()
    for message, fields in FIELDS.items():
        body = re.search(rf"^message {message} \{{(.*?)\}}$", text, re.MULTILINE | re.DOTALL)
        assert body is not None, message
        found = re.findall(r"^\s+((?:optional |repeated )?\w+) (\w+) = (\d+);", body[1], re.MULTILINE)
        assert set(fields) <= {(name, int(number), kind) for kind, name, number in found}, message


@pytest.mark.parametrize(
    ("depth", "limit_bytes"),
    [("2 BDP", 1_000_000), ("1 burst", 250_000), ("80 ms", 1_000_000), ("1 MB", 1_000_000)],
)
def test_a_queue_is_limited_in_bytes_however_the_file_says_it(depth: str, limit_bytes: int) -> None:
    # 100 Mbit/s and a round-trip time of 40 ms: a BDP of 500 kB; a burst of 20 ms is 250 kB.
    experiment = parse_experiment(
        "name: bottleneck\n"
        "hosts:\n  a: {delay: 35 ms}\n"
        f"  b: {{delay: 5 ms, rate: 100 Mbit/s, burst: 20 ms, queue: {depth}}}\n"
        "flows: [{name: f, from: a, to: b, duration: 1 s}]\n"
    )
    entities = make_plan(experiment, attachment_of(experiment)).phase("main").entities
    assert [link.limit_bytes for link in entities if isinstance(link, Link) and link.rate_bps] == [
        limit_bytes
    ]
