# SPDX-License-Identifier: Apache-2.0
"""The clocks of a run's hosts: one of them is the run's clock, to which the times of the others are moved.

Where no packet contradicts that two hosts have one clock (none arrives before it was sent, and the difference
stays the same), they are taken to have one, as hosts of one machine do. Hosts whose clocks were measured are
machines of their own; then the run's clock is weir's machine's, in which the phases are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.analysis.clocks import MAX_DRIFT_PPM
from weir.analysis.tables import FlowRow, Ints
from weir.analysis.timing.hosts import Exchanges, Solution, Solved, Stamps, records_of_hosts, solve, steps_of
from weir.analysis.timing.moved import By, HostClock, Piece, apply, followed_by
from weir.analysis.timing.one import LARGEST_SAME_NS, SAME_NS, one_clock
from weir.analysis.timing.records import Records
from weir.rundir.manifest import ClockReading, Host, Phase

LARGEST_DELAY_NS = 10_000_000
"""From packets in one direction: a smaller difference is taken for their delay, which then is unknown."""
PHASES_NS = 200_000_000
"""Packets may be so much before the first phase or after the last one on the clock of the phases."""
MACHINE = "weir's machine"


@dataclass(frozen=True)
class RunClocks:
    """The clock of each host; `reference` is the host or machine whose clock is the run's.

    Their errors are those beside each other; all together may be wrong by `reference_error_ns` beside the
    reference. `joined`: the hosts whose times are comparable, by packets between them or by measurements.
    """

    hosts: Mapping[str, HostClock]
    reference: str | None = None
    reference_error_ns: int = 0
    joined: frozenset[str] = frozenset()
    on_machine: tuple[tuple[frozenset[str], int], ...] = ()
    """Hosts joined by packets of which one was measured, and their common error beside weir's machine, ns."""

    @property
    def one(self) -> bool:
        """Whether all hosts have one clock."""
        return all(clock.same for clock in self.hosts.values())

    def moves_of(self, host: str) -> tuple[tuple[int, int, int, float], ...]:
        """The pieces of a host's clock for `weir_core.join_run`; none where it is the run's or not known."""
        return self.hosts[host].moves if host in self.hosts else ()

    def error_between_ns(self, one: str, other: str) -> int | None:
        """By how much times of two hosts may be wrong beside each other; None if unknown."""
        if one == other:
            return 0
        if not {one, other} <= self.joined:
            return None
        clocks = [self.hosts[host] for host in (one, other)]
        # Hosts that exchange no packets are only joined by the measurements of both.
        apart_ns = [error_ns for hosts, error_ns in self.on_machine if (one in hosts) != (other in hosts)]
        errors = [clock.error_ns if apart_ns else clock.from_root_ns for clock in clocks]
        return None if None in errors else sum(error or 0 for error in errors) + sum(apart_ns)


NO_CLOCKS = RunClocks({})


def clocks_of_run(
    hosts: Sequence[Host],
    phases: Sequence[Phase],
    flows: Mapping[int, FlowRow],
    packets: Any,
    *,
    one_machine: bool = False,
) -> RunClocks:
    """The clocks of hosts that exchanged packets, from the `packets` table of `weir_core.join_run`.

    `one_machine`: the hosts are namespaces of one machine, with one clock unless packets contradict that.
    """
    exchanges = exchanges_of(hosts, flows, packets)
    if not exchanges:
        return NO_CLOCKS
    records = records_of_hosts(exchanges)
    readings = {host.name: host.clock for host in hosts if host.clock}
    solutions = solve(exchanges, records)
    found: dict[str, HostClock] = {}
    reference, reference_error_ns = None, 0
    on_machine: list[tuple[frozenset[str], int]] = []
    for solution in solutions:
        solution = _within_readings(solution, readings)
        about = _described(solution, records, exchanges)
        measured = [(one.error_s, host) for host in about for one in readings.get(host, ())]
        # Errors are beside the host by which all are moved to the machine's clock.
        chosen = min(measured)[1] if measured else _reference(about, records, phases)
        beside = _beside(about, chosen, records)
        if measured:
            beside, error_ns = _on_machine(beside, records, chosen, readings[chosen])
            reference_error_ns = max(reference_error_ns, error_ns)
            on_machine.append((frozenset(beside), error_ns))
        elif not readings:
            # Hosts that only the phases join to others have a reference of their own.
            beside = {host: _judged(clock, records[host]) for host, clock in beside.items()}
            if one_machine and not any(len(records[host].set_back) for host in beside):
                beside = _on_one(beside, one_clock(exchanges, chosen), solution.root)
        reference = reference or (MACHINE if measured else chosen)
        found.update(beside)
    joined = frozenset(solutions[0].hosts)
    if any(joined == hosts for hosts, _ in on_machine):
        joined = joined.union(*(hosts for hosts, _ in on_machine))
    return RunClocks(found, reference, reference_error_ns, joined, tuple(on_machine))


def exchanges_of(hosts: Sequence[Host], flows: Mapping[int, FlowRow], packets: Any) -> Exchanges:
    """Packets that both hosts captured, by sender and receiver; none from tables without records."""
    table = pa.table(packets)
    if "sent_record" not in table.column_names:
        return {}
    owner = {address: host for host in hosts for address in host.addresses}
    seen = table.select(["flow", "sent_ns", "sent_record", "received_ns", "received_record"]).filter(
        pc.is_valid(table["received_ns"])
    )
    flow, *columns = (np.asarray(pc.cast(column, pa.int64()).to_numpy()) for column in seen.columns)
    pair_of_flow: dict[int, tuple[Host, Host]] = {}
    for number, row in flows.items():
        if row.src in owner and row.dst in owner and owner[row.src] is not owner[row.dst]:
            pair_of_flow[number] = (owner[row.src], owner[row.dst])
    names = sorted({(source.name, target.name) for source, target in pair_of_flow.values()})
    index = {pair: number for number, pair in enumerate(names)}
    of_flow = np.full(max([*flows, 0]) + 1, -1, dtype=np.int64)
    for number, (source, target) in pair_of_flow.items():
        of_flow[number] = index[source.name, target.name]
    pair = of_flow[flow]
    order = np.argsort(pair, kind="stable")
    bounds = np.searchsorted(pair[order], np.arange(len(names) + 1))
    by_name = {host.name: host for host in hosts}
    found = {}
    for number, (source_name, target_name) in enumerate(names):
        which = order[bounds[number] : bounds[number + 1]]
        if len(which):
            host = by_name[target_name]
            delay_ns = max(round((host.delay_s - host.jitter_s) * 1e9), 0)
            sent, sent_record, received, received_record = (column[which] for column in columns)
            found[source_name, target_name] = Stamps(sent, sent_record, received, received_record, delay_ns)
    return found


def _described(
    solution: Solution, records: Mapping[str, Records], exchanges: Exchanges
) -> dict[str, HostClock]:
    """Each host's clock beside the root's."""
    return {
        host: _clock(
            host, solved, records[host], sum(len(its) for pair, its in exchanges.items() if host in pair)
        )
        for host, solved in solution.hosts.items()
    }


def _clock(host: str, solved: Solved, records: Records, packets: int) -> HostClock:
    track = solved.track
    by: By = "itself"
    if track is not None:
        by = "both directions" if track.both else "one direction"
    error_ns = 0 if track is None else None if track.error is None else round(track.error)
    clock = HostClock(
        host,
        pieces=(),
        steps=(),
        offset_ns=0,
        drift_ppm=0.0,
        residual_ns=0 if track is None else round(track.residual),
        error_ns=error_ns,
        from_root_ns=error_ns,
        by=by,
        packets=packets,
        same=track is None,
    )
    return _with_pieces(clock, solved.pieces, records)


def _with_pieces(clock: HostClock, pieces: tuple[Piece, ...], records: Records) -> HostClock:
    start = int(apply(pieces[:1], records.number[:1], records.stamp_ns[:1])[0])
    firsts = [piece.first_record for piece in pieces[1:]]
    longest = int(np.argmax(np.diff([0, *np.searchsorted(records.number, firsts), len(records.number)])))
    return replace(
        clock,
        pieces=pieces,
        steps=steps_of(pieces, records),
        offset_ns=pieces[0].source_at(start) - start,
        drift_ppm=(1 / (1 + pieces[longest].drift) - 1) * 1e6,
    )


def _beside(
    about: Mapping[str, HostClock], reference: str, records: Mapping[str, Records]
) -> dict[str, HostClock]:
    """The clocks beside one of them instead of the root's."""
    first, mine = about[reference].pieces[0], about[reference]
    found = {}
    for host, clock in about.items():
        pieces = followed_by(clock.pieces, first.target_ns, first.source_ns, 1 / (1 + first.drift) - 1)
        error_ns: int | None = 0
        if host != reference:
            errors = (clock.error_ns, mine.error_ns)
            error_ns = None if None in errors else sum(error or 0 for error in errors)
        by: By = "itself" if host == reference else clock.by if clock.by != "itself" else mine.by
        residual_ns = 0 if host == reference else max(clock.residual_ns, mine.residual_ns)
        moved = replace(clock, error_ns=error_ns, by=by, residual_ns=residual_ns, same=False)
        found[host] = _with_pieces(moved, pieces, records[host])
    return found


def _reference(
    about: Mapping[str, HostClock], records: Mapping[str, Records], phases: Sequence[Phase]
) -> str:
    """The host whose clock agrees with the phases' times, was not set, and agrees with most hosts.

    Of several alike the one with most packets.
    """
    middle = float(np.median([clock.offset_ns for clock in about.values()]))

    def distance(host: str) -> tuple[int, int, int, int]:
        clock = about[host]
        outside = _outside_ns(records[host].stamp_ns, phases) // PHASES_NS
        return (
            outside,
            len(clock.steps),
            round(abs(clock.offset_ns - middle) / LARGEST_SAME_NS),
            -clock.packets,
        )

    return min(about, key=distance)


def _outside_ns(stamps: Ints, phases: Sequence[Phase]) -> int:
    """By how much a host's packets are before the first phase and after the last."""
    starts = [phase.start_ns for phase in phases if phase.start_ns is not None]
    ends = [phase.end_ns for phase in phases if phase.end_ns is not None]
    before = min(starts) - int(stamps.min()) if starts else 0
    after = int(stamps.max()) - max(ends) if ends else 0
    return max(before, after, 0)


def _judged(clock: HostClock, records: Records) -> HostClock:
    """The clock as the run's, with what it then may be wrong by, if no packet contradicts that."""
    ends = []
    firsts = [piece.first_record for piece in clock.pieces[1:]]
    cuts = [0, *np.searchsorted(records.number, firsts).tolist(), len(records.number)]
    for piece, first, end in zip(clock.pieces, cuts, cuts[1:], strict=False):
        if end > first:
            at = np.array([first, end - 1])
            ends.append(records.stamp_ns[at] - apply([piece], records.number[at], records.stamp_ns[at]))
    ahead = np.concatenate(ends)
    if clock.error_ns is None:
        lowest, highest, vary = -SAME_NS, LARGEST_DELAY_NS, LARGEST_SAME_NS
    else:
        lowest, highest = -clock.error_ns, clock.error_ns
        vary = min(max(clock.error_ns, SAME_NS), LARGEST_SAME_NS)
    if ahead.min() < lowest or ahead.max() > highest or ahead.max() - ahead.min() > vary:
        return clock
    # Taken as 0, though the packets would have it a little different.
    wrong_ns = int(np.abs(ahead).max())
    errors = [None if known is None else known + wrong_ns for known in (clock.error_ns, clock.from_root_ns)]
    return replace(clock, same=True, error_ns=errors[0], from_root_ns=errors[1])


def _on_one(beside: Mapping[str, HostClock], errors: Mapping[str, int], root: str) -> dict[str, HostClock]:
    """Without drifts and steps that may be delays: no packet contradicts that all have one clock.

    `errors` are beside the reference, so that of the root beside it is one more of a host's beside the root.
    """
    if beside.keys() - errors.keys():
        return dict(beside)
    found = {}
    for host, clock in beside.items():
        found[host] = clock
        if not clock.same:
            error_ns = errors[host]
            one = replace(clock, pieces=(), steps=(), offset_ns=0, drift_ppm=0.0, same=True)
            found[host] = replace(one, error_ns=error_ns, from_root_ns=error_ns + errors[root])
    return found


def _within_readings(solution: Solution, readings: Mapping[str, Sequence[ClockReading]]) -> Solution:
    """The solution with each host's clock where measurements and packets together allow it."""
    of_root = readings.get(solution.root)
    if not of_root:
        return solution
    own = solution.hosts[solution.root].pieces
    hosts = {}
    for host, solved in solution.hosts.items():
        hosts[host] = solved
        track = solved.track
        if track is None or host not in readings:
            continue
        low, high = solved.bounds_ns
        for reading in readings[host]:
            root = min(of_root, key=lambda one: abs(one.at_ns - reading.at_ns))
            at_root = _without_steps(own, reading.at_ns + round(root.offset_s * 1e9))
            piece = _piece_at(solved.pieces, at_root)
            told = reading.at_ns + round(reading.offset_s * 1e9) - piece.source_at(at_root)
            error = (reading.error_s + root.error_s) * 1e9
            if max(low, told - error) <= min(high, told + error):
                low, high = max(low, told - error), min(high, told + error)
        if np.isfinite(high - low):
            by, error = round((low + high) / 2), (high - low) / 2
            pieces = tuple(replace(piece, source_ns=piece.source_ns + by) for piece in solved.pieces)
            hosts[host] = Solved(pieces, replace(track.moved(by), error=error), (-error, error))
    return replace(solution, hosts=hosts)


def _without_steps(of_root: Sequence[Piece], shown_ns: int) -> int:
    """The time of the root's clock before a run or after it, as if the clock had not been set."""
    piece = of_root[0] if shown_ns <= of_root[0].source_ns else of_root[-1]
    return piece.target_ns + shown_ns - piece.source_ns


def _piece_at(pieces: Sequence[Piece], at_ns: int) -> Piece:
    """The first piece or the last: hosts are measured before a run and after it."""
    return pieces[0] if at_ns <= pieces[0].target_ns else pieces[-1]


def _on_machine(
    beside: Mapping[str, HostClock],
    records: Mapping[str, Records],
    host: str,
    readings: Sequence[ClockReading],
) -> tuple[dict[str, HostClock], int]:
    """The clocks beside that of weir's machine, by a measured host, and the error of that, ns.

    The best measurement moves them. The first and the last one show the drift of the two clocks, if it is
    more than their errors; how far the others are from that line is part of the error.
    """
    mine, stamps = beside[host].pieces, records[host].stamp_ns

    def steady_ns(reading: ClockReading) -> int:
        shown = reading.at_ns + round(reading.offset_s * 1e9)
        piece = mine[0] if shown <= stamps[len(stamps) // 2] else mine[-1]
        since = shown - piece.source_ns
        return piece.target_ns + since + round(since * piece.drift)

    best = min(readings, key=lambda one: one.error_s)
    there = steady_ns(best)
    first, last = (end(readings, key=lambda one: one.at_ns) for end in (min, max))
    took_ns, drift = steady_ns(last) - steady_ns(first), 0.0
    apart_ns = last.at_ns - first.at_ns - took_ns
    if abs(apart_ns) > (first.error_s + last.error_s) * 1e9 and took_ns > 0:
        drift = apart_ns / took_ns
    if abs(drift) * 1e6 > MAX_DRIFT_PPM:
        drift = 0.0  # one of the clocks was set in between
    found = {}
    for name, clock in beside.items():
        pieces = followed_by(clock.pieces, there, best.at_ns, drift)
        found[name] = _with_pieces(clock, pieces, records[name])

    def wrong_ns(reading: ClockReading) -> int:
        since_ns = steady_ns(reading) - there
        return abs(since_ns + round(since_ns * drift) - (reading.at_ns - best.at_ns))

    return found, max(wrong_ns(one) + round(one.error_s * 1e9) for one in readings)
