# SPDX-License-Identifier: Apache-2.0
"""The law of conservation: every packet that was sent and did not arrive has a reason, or the run has a bug.

    sent − received = reported drops + reports lost + emulated losses + in flight + unexplained

per directed 5-tuple and in total, in packets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Bools, Packets


@dataclass(frozen=True)
class Account:
    """Both sides of the law for one flow (or their sum)."""

    sent: int
    received: int
    reported_drops: int
    reports_lost: int = 0
    emulated_losses: int = 0
    in_flight: int = 0
    contradictions: int = 0
    """Packets that were reported dropped and arrived all the same: never explained, each one is a bug."""

    @property
    def missing(self) -> int:
        """The left side: sent − received."""
        return self.sent - self.received

    @property
    def explained(self) -> int:
        """The right side without the rest."""
        return self.reported_drops + self.reports_lost + self.emulated_losses + self.in_flight

    @property
    def unexplained(self) -> int:
        """What the law leaves over; negative when more was reported than is missing."""
        return self.missing - self.explained

    def __add__(self, other: Account) -> Account:
        """Both accounts together."""
        return Account(
            *(
                getattr(self, name) + getattr(other, name)
                for name in (
                    "sent",
                    "received",
                    "reported_drops",
                    "reports_lost",
                    "emulated_losses",
                    "in_flight",
                    "contradictions",
                )
            )
        )


def total(accounts: Sequence[Account]) -> Account:
    """The sum of all accounts."""
    result = Account(0, 0, 0)
    for account in accounts:
        result = result + account
    return result


@dataclass(frozen=True)
class LostReports:
    """How many drop reports are known to be lost on the way, and of which policer where that is known.

    `gaps`: missing sequence numbers between received reports. `tail`: reports that the switch counted after
    the last one received, which no gap shows. `by_policer`: red packets counted minus reports received.
    """

    gaps: int
    tail: int
    by_policer: Mapping[str, int]

    @property
    def pool(self) -> int:
        """All reports known lost."""
        return self.gaps + self.tail


def lost_reports(
    *,
    received: int,
    duplicates: int,
    gaps: int,
    sent_by_switch: int | None,
    red_by_policer: Mapping[str, int],
    reported_by_policer: Mapping[str, int],
) -> LostReports:
    """Count the lost reports from the collector's account and the switch's counters.

    `sent_by_switch` is None for a switch that does not count them: then only gaps are known.
    """
    tail = 0 if sent_by_switch is None else max(0, sent_by_switch - (received - duplicates) - gaps)
    by_policer = {
        name: max(0, red - reported_by_policer.get(name, 0)) for name, red in red_by_policer.items()
    }
    return LostReports(gaps=gaps, tail=tail, by_policer=by_policer)


def in_flight(packets: Packets, capture_end_ns: int, path_ns: int) -> Bools:
    """Packets that had no time to arrive: neither received nor reported, sent within `path_ns` of the end."""
    return np.asarray(~packets.received & ~packets.dropped & (packets.sent_ns > capture_end_ns - path_ns))


def path_time_ns(packets: Packets, round_trip_ns: int) -> int:
    """How long a packet of this flow can be under way: its path and the longest wait in a queue.

    The stamps of sender and receiver need not be of one clock: only the spread of their differences counts.
    """
    transit = (packets.received_ns - packets.sent_ns)[packets.received]
    waiting = int(transit.max() - transit.min()) if len(transit) else 0
    return round_trip_ns + waiting


def count(packets: Packets, flying: Bools) -> Account:
    """The account of one flow before lost reports and emulated losses are attributed."""
    return Account(
        sent=len(packets),
        received=int(packets.received.sum()),
        reported_drops=int(packets.dropped.sum()),
        in_flight=int(flying.sum()),
        contradictions=int((packets.received & packets.dropped).sum()),
    )


def share_out(pool: int, claims: Sequence[int]) -> list[int]:
    """Give each claim its part of a pool: all of it where the pool suffices, else in proportion.

    Largest remainders decide the last units, the earlier claim first; the parts never exceed the claims.
    """
    wanted = [max(0, claim) for claim in claims]
    everything = sum(wanted)
    if everything <= pool:
        return wanted
    if pool <= 0:
        return [0] * len(wanted)
    parts = [claim * pool // everything for claim in wanted]
    remainders = sorted(range(len(wanted)), key=lambda i: (-(wanted[i] * pool % everything), i))
    for i in remainders[: pool - sum(parts)]:
        parts[i] += 1
    return parts


def attribute(
    accounts: Mapping[str, Account],
    policers: Mapping[str, str | None],
    lost: LostReports,
    emulated_losses: int,
) -> dict[str, Account]:
    """Attribute known lost reports, then emulated losses, to the flows that miss packets.

    A lost report names no flow, so this is the most that can be said: a flow gets at most what it misses, the
    flows of a policer together at most what that policer's counter shows unreported, all flows together at
    most the reports known lost. What the pools do not cover stays unexplained. Flows behind no policer can
    lose packets only to the links.
    """
    result = dict(accounts)
    left = lost.pool
    for policer in dict.fromkeys(name for name in policers.values() if name is not None):
        members = [flow for flow in accounts if policers.get(flow) == policer]
        pool = min(left, lost.by_policer.get(policer, left))
        parts = share_out(pool, [result[flow].unexplained for flow in members])
        left -= sum(parts)
        for flow, part in zip(members, parts, strict=True):
            result[flow] = _with(result[flow], reports_lost=part)
    names = list(result)
    parts = share_out(emulated_losses, [result[flow].unexplained for flow in names])
    for flow, part in zip(names, parts, strict=True):
        result[flow] = _with(result[flow], emulated_losses=part)
    return result


def _with(account: Account, *, reports_lost: int = 0, emulated_losses: int = 0) -> Account:
    return account + Account(0, 0, 0, reports_lost=reports_lost, emulated_losses=emulated_losses)


@dataclass(frozen=True)
class PolicerCheck:
    """Three ways of counting the packets that met one policer, and two of counting its drops."""

    counted_by_colour: int | None
    packets_met: int | None
    sent_in_captures: int
    red: int | None
    reported_drops: int
    reports_lost: int
    passed_bytes_counted: int | None = None
    passed_bytes_in_captures: int | None = None

    @property
    def disagreements(self) -> list[str]:
        """In words, every pair of counts that differs; empty when all agree."""
        found = []
        if self.counted_by_colour is not None and self.counted_by_colour != self.sent_in_captures:
            found.append(
                f"green + yellow + red is {self.counted_by_colour:,} packets, but the senders' captures hold "
                f"{self.sent_in_captures:,} of its flows"
            )
        both = self.counted_by_colour is not None and self.packets_met is not None
        if both and self.counted_by_colour != self.packets_met:
            found.append(
                f"green + yellow + red is {self.counted_by_colour:,} packets, but {self.packets_met:,} met it"
            )
        if self.red is not None and self.red != self.reported_drops + self.reports_lost:
            found.append(
                f"{self.red:,} red packets, but {self.reported_drops:,} drop reports and "
                f"{self.reports_lost:,} known lost"
            )
        if self.passed_bytes_counted is not None and (
            self.passed_bytes_counted != self.passed_bytes_in_captures
        ):
            found.append(
                f"green + yellow is {self.passed_bytes_counted:,} bytes, but the captures show "
                f"{self.passed_bytes_in_captures:,} bytes of packets that were not dropped"
            )
        return found
