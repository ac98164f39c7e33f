# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.analysis.tables import FlowRow, Ints
from weir.analysis.timing.moved import apply
from weir.analysis.timing.run import MACHINE, RunClocks, clocks_of_run
from weir.rundir.manifest import ClockReading, Host, Phase
from weir_tests.analysis.shifted_clock import Clock

S, MS, US = 1_000_000_000, 1_000_000, 1_000
START_NS = 1_760_000_000 * S
TRUE = Clock()


@dataclass(frozen=True)
class Way:
    """Packets from one host to another, evenly spaced but for chance, over part of the run."""

    source: str
    target: str
    packets: int = 6000
    since_s: float = 0.0
    until_s: float = 30.0
    least_ns: int = 10_100_000
    noise_ns: int = 30_000


TRIANGLE = (
    Way("a", "hub"),
    Way("hub", "a", 3000),
    Way("b", "hub"),
    Way("hub", "b", 3000),
    Way("c", "hub", 500),
    Way("hub", "c", 250),
)


@dataclass(frozen=True)
class Found:
    clocks: RunClocks
    record: Mapping[str, Ints]
    shown: Mapping[str, Ints]
    true: Mapping[str, Ints]

    def errors(self, host: str) -> Ints:
        """Of the host's times, moved to the run's clock, beside the true ones."""
        clock = self.clocks.hosts[host]
        moved = self.shown[host] if clock.same else apply(clock.pieces, self.record[host], self.shown[host])
        return np.asarray(moved - self.true[host], dtype=np.int64)

    def worst_between(self, one: str, other: str) -> float:
        """The largest error between times of two hosts at any moment, but within 0.4 s of a step."""
        at = np.concatenate([self.true[host] for host in (one, other)])
        for clock in self.clocks.hosts.values():
            for step in clock.steps:
                at = at[np.abs(at - step.at_ns) > 400 * MS + self.apart_ns]
        errors = [np.interp(at, self.true[host], self.errors(host)) for host in (one, other)]
        return float(np.abs(errors[0] - errors[1]).max())

    @property
    def apart_ns(self) -> int:
        """How far the run's clock is from the true time."""
        return max(abs(int(self.errors(host)[0])) for host in self.true)


def found(
    clocks: Mapping[str, Clock],
    ways: Sequence[Way] = TRIANGLE,
    readings: Mapping[str, Sequence[ClockReading]] | None = None,
    seed: int = 1,
    delay_s: float = 0.01,
    phases: Sequence[Phase] = (Phase(name="all", start_ns=START_NS, end_ns=START_NS + 31 * S),),
    waits: Mapping[str, Sequence[tuple[float, float, float]]] = MappingProxyType({}),
    one_machine: bool = False,
) -> Found:
    """The clocks that packets on all ways show, which carry the true times as the hosts' clocks show them.

    `waits`: packets to a host that are sent between two times wait so long, s, or until those before come.
    """
    rng = np.random.default_rng(seed)
    names = sorted({name for way in ways for name in (way.source, way.target)})
    sent, received, source, target = [], [], [], []
    for way in ways:
        since = np.sort(rng.integers(int(way.since_s * S), int(way.until_s * S), way.packets))
        delay = way.least_ns + rng.exponential(way.noise_ns, way.packets).astype(np.int64)
        for from_s, until_s, waits_s in waits.get(way.target, ()):
            delay[(since >= from_s * S) & (since < until_s * S)] += round(waits_s * S)
        arrival = np.maximum.accumulate(since + delay) if waits else since + delay
        sent.append(START_NS + since)
        received.append(START_NS + arrival)
        source.append(np.full(way.packets, names.index(way.source)))
        target.append(np.full(way.packets, names.index(way.target)))
    true_sent, true_received = np.concatenate(sent), np.concatenate(received)
    of_source, of_target = np.concatenate(source), np.concatenate(target)
    flow = np.repeat(np.arange(len(ways)), [way.packets for way in ways])
    columns = {
        name: np.zeros(len(flow), dtype=np.int64)
        for name in ("sent", "received", "sent_record", "received_record")
    }
    record, shown, true = {}, {}, {}
    for number, name in enumerate(names):
        mine, theirs = np.flatnonzero(of_source == number), np.flatnonzero(of_target == number)
        when = np.concatenate([true_sent[mine], true_received[theirs]])
        order = np.argsort(when, kind="stable")
        ranks = np.empty(len(when), dtype=np.int64)
        ranks[order] = np.arange(len(when))
        stamps = clocks.get(name, TRUE).stamps(when, START_NS)
        columns["sent"][mine], columns["received"][theirs] = stamps[: len(mine)], stamps[len(mine) :]
        columns["sent_record"][mine], columns["received_record"][theirs] = (
            ranks[: len(mine)],
            ranks[len(mine) :],
        )
        record[name], shown[name], true[name] = ranks[order], stamps[order], when[order]
    rows = {
        number: FlowRow(
            number,
            f"10.0.0.{names.index(way.source)}",
            f"10.0.0.{names.index(way.target)}",
            1,
            2,
            6,
            None,
            None,
            0,
            0,
            0,
        )
        for number, way in enumerate(ways)
    }
    hosts = [
        Host(
            name=name,
            addresses=(f"10.0.0.{number}",),
            pcap=f"{name}.pcap",
            delay_s=delay_s,
            clock=tuple((readings or {}).get(name, ())),
        )
        for number, name in enumerate(names)
    ]
    table: Any = pa.table(
        {
            "flow": flow,
            "sent_ns": columns["sent"],
            "sent_record": columns["sent_record"],
            "received_ns": columns["received"],
            "received_record": columns["received_record"],
        }
    )
    clocks_found = clocks_of_run(hosts, phases, rows, table, one_machine=one_machine)
    return Found(clocks_found, record, shown, true)


def steps_ms(run: Found) -> dict[str, list[tuple[int, float]]]:
    """Time (in s) and size of each step."""
    return {
        host: [(round((step.at_ns - START_NS) / S), round(step.size_ns / MS, 1)) for step in clock.steps]
        for host, clock in run.clocks.hosts.items()
        if clock.steps
    }


def test_hosts_of_one_machine_have_one_clock() -> None:
    run = found({})
    assert run.clocks.one
    assert all(clock.moves == () for clock in run.clocks.hosts.values())
    assert run.clocks.error_between_ns("a", "b") is not None


def test_hosts_of_one_machine_have_one_clock_although_their_paths_differ() -> None:
    ways = (Way("a", "hub", least_ns=18 * MS), Way("hub", "a", least_ns=11 * MS))
    assert found({}, ways).clocks.one


@pytest.mark.parametrize(
    "waits",
    [
        {"a": [(2.9, 4.5, 0.02)], "hub": [(3.3, 4.5, 0.002)]},
        {
            "a": [(1.4, 1.6, 0.002), (1.5, 3.5, 0.005)],
            "hub": [(0.6, 1.9, 0.002), (0.7, 3.2, 0.1), (3.2, 4, 0.002)],
        },
        {"a": [(0.9, 2.5, 0.005), (1.9, 2.4, 0.1)], "hub": [(0.0, 0.7, 0.0005), (1.2, 4.0, 0.005)]},
    ],
)
def test_a_busy_machine_on_which_packets_wait_has_one_clock(
    waits: Mapping[str, Sequence[tuple[float, float, float]]],
) -> None:
    ways = (Way("a", "hub", 300, until_s=4), Way("hub", "a", 150, until_s=4))
    run = found({}, ways, waits=waits, one_machine=True)
    assert run.clocks.one
    assert all((clock.offset_ns, clock.steps) == (0, ()) for clock in run.clocks.hosts.values())
    assert (run.clocks.error_between_ns("a", "hub") or 0) < 1 * MS


def test_the_error_between_hosts_of_one_machine_has_that_of_the_host_between_them() -> None:
    # `r` has most packets, also before the phases, so `c` is the reference, by which `x` is joined.
    ways = (
        Way("r", "z"),
        Way("z", "r"),
        Way("r", "c", 3000, 3, least_ns=10_080 * US, noise_ns=5 * US),
        Way("c", "r", 3000, 3, least_ns=11_720 * US, noise_ns=5 * US),
        Way("x", "c", 300, 3, 12, least_ns=10_850 * US, noise_ns=5 * US),
        Way("c", "x", 150, 3, 12, least_ns=10_050 * US, noise_ns=5 * US),
    )
    ahead = {"r": Clock(-820 * US), "z": Clock(-820 * US), "x": Clock(400 * US)}
    waits = {"x": [(5.0, 12.0, 0.02)], "c": [(6.0, 12.0, 0.002)]}
    phases = (Phase(name="all", start_ns=START_NS + 2 * S, end_ns=START_NS + 31 * S),)
    run = found(ahead, ways, phases=phases, waits=waits, one_machine=True)
    assert run.clocks.reference == "c"
    error = run.clocks.error_between_ns("r", "x")
    assert error is not None
    assert 1 * MS < run.worst_between("r", "x") <= error < 2 * MS


def test_hosts_of_one_machine_whose_captures_contradict_that_have_clocks_of_their_own() -> None:
    clocks = {"a": Clock(steps=((2.0, 5 * MS),)), "b": Clock(offset_ns=-2 * MS)}
    run = found(clocks, one_machine=True)
    assert not run.clocks.one
    assert steps_ms(run)["a"] == [(2, 5.0)]
    assert run.worst_between("a", "b") < 500 * US


def test_the_clock_of_most_hosts_is_the_runs() -> None:
    run = found({"b": Clock(offset_ns=-50 * MS)})
    assert run.clocks.reference == "hub"
    assert [host for host, clock in run.clocks.hosts.items() if not clock.same] == ["b"]
    assert run.clocks.hosts["b"].offset_ns == pytest.approx(-50 * MS, abs=20 * US)
    run = found({"hub": Clock(offset_ns=-50 * MS)})
    assert [host for host, clock in run.clocks.hosts.items() if not clock.same] == ["hub"]


def test_the_clock_on_which_the_phases_were_is_the_runs() -> None:
    ahead = {name: Clock(offset_ns=7 * S + number * 20 * MS) for number, name in enumerate(("a", "b", "hub"))}
    run = found(ahead)
    assert run.clocks.reference == "c"
    assert run.clocks.hosts["hub"].offset_ns == pytest.approx(7 * S + 40 * MS, abs=1 * MS)


@pytest.mark.parametrize("size", [5 * MS, -5 * MS, 1 * S, -1 * S])
@pytest.mark.parametrize("who", ["a", "hub", "c"])
def test_the_host_whose_clock_was_set_is_found(who: str, size: int) -> None:
    run = found({who: Clock(steps=((12.0, size),))})
    assert steps_ms(run) == {who: [(12.0, size / MS)]}
    assert max(run.worst_between(who, other) for other in ("a", "b", "c", "hub")) < 60 * US


@pytest.mark.parametrize("size", [400 * MS, 1 * S, 1_050 * MS, 7 * S])
@pytest.mark.parametrize("who", ["a", "hub"])
def test_no_packet_is_put_on_the_wrong_side_of_a_step_forward(who: str, size: int) -> None:
    # Such a step leaves as long a time without packets, about whose ends chance decides.
    for seed in range(4):
        run = found({who: Clock(steps=((12.0, size),))}, seed=seed)
        assert max(np.abs(run.errors(host)).max() for host in ("a", "b", "c", "hub")) < 200 * US


@pytest.mark.parametrize("size", [5 * MS, -5 * MS])
@pytest.mark.parametrize("who", ["a", "hub"])
def test_of_two_hosts_the_one_whose_clock_was_set_is_found(who: str, size: int) -> None:
    run = found({who: Clock(steps=((12.0, size),))}, (Way("a", "hub", 60_000), Way("hub", "a", 30_000)))
    assert steps_ms(run) == {who: [(12.0, size / MS)]}


def test_a_delayed_packet_just_after_a_step_is_put_after_it() -> None:
    # The packet is early by less than half the step, and the pauses around it hide that times go back.
    paused = [
        Way(*hosts, since_s=since, until_s=until)
        for hosts in (("a", "hub"), ("hub", "a"))
        for since, until in ((0.0, 11.985), (12.012, 30.0))
    ]
    late = Way("hub", "a", 1, since_s=11.99, until_s=11.990001, least_ns=14_300_000)
    run = found({"a": Clock(steps=((12.0, -5 * MS),))}, (*paused, late, *TRIANGLE[2:]))
    assert run.clocks.reference == "hub"
    assert np.abs(run.errors("a")).max() < 300 * US


def test_ntp_grade_clocks_are_known_to_the_error_stated() -> None:
    run = found(
        {
            "a": Clock(1 * MS, 50.0, ((9.0, 3 * MS),)),
            "b": Clock(-1 * MS, -50.0, ((14.0, -4 * MS),)),
            "hub": Clock(500 * US, 30.0, ((21.0, 2 * MS),)),
            "c": Clock(-20 * MS, -30.0),
        }
    )
    for host in ("a", "b", "c"):
        error = run.clocks.error_between_ns(host, "hub")
        assert error is not None
        assert run.worst_between(host, "hub") <= error < 300 * US
    reference = run.clocks.hosts[run.clocks.reference or ""]
    assert reference.by == "itself"
    for host, ppm in (("a", 50.0), ("b", -50.0), ("hub", 30.0), ("c", -30.0)):
        beside = {"a": 50.0, "b": -50.0, "hub": 30.0, "c": -30.0}[reference.host]
        assert run.clocks.hosts[host].drift_ppm == pytest.approx(ppm - beside, abs=1.0)


def test_hosts_are_joined_over_other_hosts() -> None:
    chain = (Way("a", "b"), Way("b", "a"), Way("b", "c"), Way("c", "b"), Way("c", "d"), Way("d", "c"))
    run = found(
        {"a": Clock(30 * MS), "b": Clock(0, 40.0), "d": Clock(-2 * S, 0.0, ((20.0, 10 * MS),))}, chain
    )
    assert len({id(run.clocks.hosts[host]) for host in "abcd"}) == 4
    assert run.worst_between("a", "d") < 300 * US
    assert steps_ms(run) == {"d": [(20.0, 10.0)]}


def test_packets_in_one_direction_leave_the_delay_open() -> None:
    run = found({"a": Clock(offset_ns=-3 * S)}, (Way("a", "hub"),))
    clocks = run.clocks.hosts
    assert {clock.by for clock in clocks.values()} == {"itself", "one direction"}
    assert run.clocks.error_between_ns("a", "hub") is None
    assert not run.clocks.one
    assert run.worst_between("a", "hub") < 400 * US


def test_what_is_not_known_of_a_paths_delay_is_in_the_error() -> None:
    ways = (Way("a", "hub", least_ns=14 * MS), Way("hub", "a", least_ns=11 * MS))
    run = found({"a": Clock(offset_ns=5 * S)}, ways)
    error = run.clocks.error_between_ns("a", "hub")
    assert error == pytest.approx(2.5 * MS, abs=100 * US)
    assert 1 * MS < run.worst_between("a", "hub") <= error


def reading(at_s: float, ahead_ns: int, error_ns: int) -> ClockReading:
    return ClockReading(at_ns=START_NS + int(at_s * S), offset_s=ahead_ns / S, error_s=error_ns / S)


def test_measured_clocks_are_beside_that_of_weirs_machine() -> None:
    readings = {
        "a": [reading(-1, 2 * S, 300 * US), reading(31, 2 * S, 300 * US)],
        "hub": [reading(-1, -1 * S, 200 * US), reading(31, -1 * S, 200 * US)],
    }
    run = found({"a": Clock(2 * S), "hub": Clock(-1 * S)}, TRIANGLE[:2], readings)
    assert run.clocks.reference == MACHINE
    assert run.clocks.hosts["a"].offset_ns == pytest.approx(2 * S, abs=500 * US)
    assert run.clocks.hosts["hub"].offset_ns == pytest.approx(-1 * S, abs=500 * US)
    assert np.abs(run.errors("a")).max() < 500 * US


def test_measured_clocks_bound_what_the_packets_leave_open() -> None:
    ways = (Way("a", "hub", least_ns=28 * MS), Way("hub", "a", least_ns=11 * MS))
    ahead = 4 * S
    alone = found({"a": Clock(offset_ns=ahead)}, ways)
    readings = {
        "a": [reading(-1, ahead + 200 * US, 1 * MS), reading(31, ahead - 100 * US, 1 * MS)],
        "hub": [reading(-1, 0, 500 * US)],
    }
    bounded = found({"a": Clock(offset_ns=ahead)}, ways, readings)
    before, after = (run.clocks.error_between_ns("a", "hub") for run in (alone, bounded))
    assert before is not None
    assert after is not None
    assert before > 9 * MS
    assert after < 1600 * US
    assert bounded.worst_between("a", "hub") < after + 300 * US


@pytest.mark.parametrize("error_ns", [500 * US, 2 * MS])
@pytest.mark.parametrize("host", ["a", "b"])
def test_measured_clocks_bound_the_unknown_delay_of_packets_in_either_direction(
    host: str, error_ns: int
) -> None:
    # Each host but the one with most packets either sends or receives, with 1 ms more than its link has.
    senders = (Way("a", "hub", least_ns=11 * MS), Way("b", "hub", least_ns=11 * MS))
    readings = {name: [reading(-1, 0, error_ns), reading(31, 0, error_ns)] for name in ("a", "b", "hub")}
    for ways in (senders, tuple(Way(way.target, way.source, least_ns=11 * MS) for way in senders)):
        run = found({}, ways, readings)
        error = run.clocks.error_between_ns(host, "hub")
        assert error is not None
        assert run.worst_between(host, "hub") <= error <= 2.5 * error_ns


@pytest.mark.parametrize("step", [400 * MS, 3 * S, -3 * S])
def test_clocks_measured_after_a_host_was_set_are_beside_what_it_then_shows(step: int) -> None:
    readings = {"a": [reading(31, step, 1 * MS)], "hub": [reading(31, 0, 1 * MS)]}
    ways = (Way("a", "hub", least_ns=11 * MS), Way("a", "c", 500, least_ns=11 * MS))
    run = found({"a": Clock(steps=((12.0, step),))}, ways, readings)
    error = run.clocks.error_between_ns("a", "hub")
    assert error is not None
    assert run.worst_between("a", "hub") <= error <= 2 * MS


def test_errors_beside_weirs_machine_have_those_of_the_packets_on_the_way_from_a_measured_host() -> None:
    ways = (Way("a", "hub", 3000, least_ns=18 * MS), *TRIANGLE[1:4])
    run = found({}, ways, {"a": [reading(-1, 0, 50 * US)]})
    for host, clock in run.clocks.hosts.items():
        assert clock.error_ns is not None
        error = clock.error_ns + run.clocks.reference_error_ns
        print(f"{host}: wrong by {np.abs(run.errors(host)).max():,} ns, stated {error:,} ns")
        assert np.abs(run.errors(host)).max() <= error < 5 * MS


@pytest.mark.parametrize("drift_ppm", [-50.0, 50.0])
def test_the_drift_beside_weirs_machine_between_two_measurements_is_taken_out(drift_ppm: float) -> None:
    late = round(32 * S * drift_ppm * 1e-6)
    readings = {
        name: [reading(-1, 0, 100 * US), reading(31, late + 80 * US, 100 * US)] for name in ("a", "hub")
    }
    clock = Clock(round(1 * S * drift_ppm * 1e-6), drift_ppm)
    run = found(dict.fromkeys(readings, clock), TRIANGLE[:2], readings)
    assert np.abs(run.errors("a")).max() <= run.clocks.reference_error_ns < 300 * US
    assert run.clocks.hosts["a"].drift_ppm == pytest.approx(drift_ppm, abs=5)


@pytest.mark.parametrize(("late", "error_ns"), [(150 * US, 100 * US), (20 * MS, 100 * US)])
def test_a_difference_of_two_measurements_that_is_no_drift_is_an_error(late: int, error_ns: int) -> None:
    # Within the errors of both, or more than any clock drifts: one of them was set.
    readings = {name: [reading(-1, 0, error_ns), reading(31, late, error_ns)] for name in ("a", "hub")}
    run = found({}, TRIANGLE[:2], readings)
    assert run.clocks.hosts["a"].drift_ppm == pytest.approx(0, abs=0.5)
    assert np.abs(run.errors("a")).max() <= run.clocks.reference_error_ns
    assert run.clocks.reference_error_ns == pytest.approx(late + error_ns, abs=20 * US)


PAIRS = (Way("a", "b"), Way("b", "a"), Way("c", "d", 3000), Way("d", "c", 3000))


def test_hosts_without_packets_between_them_are_joined_by_measurements_with_their_error() -> None:
    readings = {name: [reading(-1, 900 * US, 1 * MS)] for name in ("a", "b")}
    readings |= {name: [reading(-1, -900 * US, 1 * MS)] for name in ("c", "d")}
    run = found({}, PAIRS, readings)
    for one, other in (("a", "c"), ("b", "d"), ("a", "d")):
        error = run.clocks.error_between_ns(one, other)
        assert error is not None
        assert 1 * MS < run.worst_between(one, other) <= error < 3 * MS
    for one, other in (("a", "b"), ("c", "d")):
        assert (run.clocks.error_between_ns(one, other) or 0) < 1 * MS


@pytest.mark.parametrize("measured", ["ab", "cd"])
def test_hosts_are_not_joined_by_measurements_of_others(measured: str) -> None:
    run = found({}, PAIRS, {name: [reading(-1, 0, 1 * MS)] for name in measured})
    assert run.clocks.error_between_ns("a", "c") is None
    assert (run.clocks.error_between_ns("a", "b") or 0) < 1 * MS
    assert (run.clocks.reference == MACHINE) == (measured == "ab")


def test_measurements_that_contradict_the_packets_are_not_believed() -> None:
    readings = {"a": [reading(-1, 90 * MS, 1 * MS)], "hub": [reading(-1, 0, 1 * MS)]}
    run = found({"a": Clock(offset_ns=5 * MS)}, TRIANGLE[:2], readings)
    assert run.worst_between("a", "hub") < 100 * US


def test_hosts_that_were_measured_are_machines_of_their_own() -> None:
    readings = {"a": [reading(-1, 0, 1 * MS)], "hub": [reading(-1, 0, 1 * MS)]}
    assert not found({}, TRIANGLE[:2], readings).clocks.one


def test_hosts_without_packets_between_them_have_no_clock() -> None:
    assert found({}, (Way("a", "hub", packets=0),)).clocks.hosts == {}


def any_clock(since_s: float, until_s: float) -> st.SearchStrategy[Clock]:
    """A clock that was set at most once, in a part of the run."""
    size = st.one_of(st.integers(3 * MS, 2 * S), st.integers(-2 * S, -3 * MS))
    step = st.tuples(st.floats(since_s, until_s), size)
    return st.builds(
        Clock,
        offset_ns=st.integers(-5 * S, 5 * S),
        drift_ppm=st.floats(-50, 50),
        steps=st.one_of(st.just(()), st.tuples(step)),
    )


@settings(max_examples=25, deadline=None)
@given(
    clocks=st.fixed_dictionaries({"a": any_clock(4, 9), "b": any_clock(12, 17), "hub": any_clock(20, 26)}),
    seed=st.integers(0, 2**16),
)
def test_any_clocks_are_known_to_the_error_stated(clocks: dict[str, Clock], seed: int) -> None:
    run = found(clocks, TRIANGLE[:4], seed=seed)
    for one, other in (("a", "hub"), ("b", "hub"), ("a", "b")):
        error = run.clocks.error_between_ns(one, other)
        assert error is not None
        assert error < 600 * US
        assert run.worst_between(one, other) <= error
