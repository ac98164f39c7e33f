# SPDX-License-Identifier: Apache-2.0
"""The flows of a run and their times depend on its file and seed alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weir.controlplane.attach import attachment_of
from weir.controlplane.config import parse_experiment
from weir.controlplane.plan import make_plan
from weir.runner.traffic import background_specs, flow_specs, message_s
from weir.topo.background import arrivals
from weir.topo.traffic import PortAllocator

TEXT = """\
name: again
seed: 5
hosts: {a: {}, b: {}}
flows:
  - {name: one, from: a, to: b, duration: 4 s, writes: {size: 1 kB, every: 100 ms, on: 1 s, off: 1 s}}
  - {name: two, from: a, to: b, duration: 4 s}
background:
  - {name: tcp, from: a, to: b, duration: 4 s, rate: 10 Mbit/s}
  - {name: udp, from: a, to: b, duration: 4 s, rate: 10 Mbit/s, protocol: udp, pacing: 2 Mbit/s}
phases: [{name: first}, {name: second}]
"""


def schedule(text: str) -> list[Any]:
    """All flows of all phases: ports, arrival times and sizes."""
    experiment, ports = parse_experiment(text), PortAllocator()
    found: list[Any] = []
    for phase in make_plan(experiment, attachment_of(experiment)).phases:
        found += [spec for _, spec in flow_specs(experiment, phase.name, ports, Path())]
        found += [(spec, arrivals(spec)) for spec in background_specs(experiment, phase.name, ports)]
    return found


def test_the_same_seed_gives_the_same_flows_and_a_different_seed_different_backgrounds() -> None:
    first = schedule(TEXT)
    assert schedule(TEXT) == first
    other = schedule(TEXT.replace("seed: 5", "seed: 6"))
    assert len(first) == len(other) == 2 * 4
    same = [one == another for one, another in zip(first, other, strict=True)]
    assert same == [True, True, False, False] * 2


def test_an_added_background_does_not_change_the_flows_of_others() -> None:
    more = TEXT.replace(
        "background:\n", "background:\n  - {name: n, from: b, to: a, duration: 4 s, rate: 1 Mbit/s}\n"
    )
    drawn = {spec.id: flows for spec, flows in (one for one in schedule(more) if isinstance(one, tuple))}
    for spec, flows in (one for one in schedule(TEXT) if isinstance(one, tuple)):
        assert drawn[spec.id] == flows


def test_a_message_may_wait_for_the_whole_queue() -> None:
    slow = TEXT.replace("b: {}", "b: {rate: 10 Mbit/s, burst: 5 kB, queue: 10 MB}")
    experiment = parse_experiment(slow)
    assert (message_s(experiment, "b", "a"), message_s(experiment, "a", "b")) == (0.0, 8.0)
    ((_, spec), _) = flow_specs(experiment, "first", PortAllocator(), Path())
    assert spec.message_s == 8.0


def test_a_message_may_be_retransmitted_as_often_as_one_in_a_thousand_is() -> None:
    lossy = TEXT.replace("b: {}", "b: {loss: 10 %}")
    # 0.1³ is one in a thousand: TCP waits 0.5, 1 and 2 s.
    assert message_s(parse_experiment(lossy), "a", "b") == 3.5
    assert message_s(parse_experiment(lossy), "b", "a") == 3.5
    more = lossy.replace("{name: first}", "{name: first, changes: [{at: 1 s, host: a, loss: 40 %}]}")
    # 0.6 × 0.9 arrive, and 0.46⁹ is below one in a thousand.
    assert message_s(parse_experiment(more), "a", "b") == pytest.approx(0.5 * (2**9 - 1))
    nothing = TEXT.replace("b: {}", "b: {loss: 100 %}")
    assert message_s(parse_experiment(nothing), "a", "b") == 0


@pytest.mark.parametrize("percent", [55, 70, 95, 99.9, 99.9999999])
def test_a_message_over_a_link_that_loses_most_is_waited_for_within_bounds(percent: float) -> None:
    lossy = TEXT.replace("a: {}", "a: {loss: 10 %}").replace("b: {}", f"b: {{loss: {percent} %}}")
    assert message_s(parse_experiment(lossy), "a", "b") == 0.5 * (2**10 - 1)


def test_a_message_is_waited_for_where_almost_nothing_arrives() -> None:
    most = "{loss: 99.9999999 %}"
    lossy = TEXT.replace("a: {}", f"a: {most}").replace("b: {}", f"b: {most}")
    assert message_s(parse_experiment(lossy), "a", "b") == 0.5 * (2**10 - 1)
