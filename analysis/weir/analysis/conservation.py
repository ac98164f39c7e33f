# SPDX-License-Identifier: Apache-2.0
"""The law of conservation of packets: each one that was sent and did not arrive has a reason, or is a bug.

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
    """Packets that were reported dropped but arrived: never explained, each one is a bug."""

    @property
    def missing(self) -> int:
        """The left side: sent − received."""
        return self.sent - self.received

    @property
    def explained(self) -> int:
        """The right side without `unexplained`."""
        return self.reported_drops + self.reports_lost + self.emulated_losses + self.in_flight

    @property
    def unexplained(self) -> int:
        """The difference of both sides; negative when more was reported than is missing."""
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
    """Drop reports known to be lost between switch and collector, per policer where that is known.

    `gaps`: missing sequence numbers between received reports. `tail`: reports that the switch counted after
    the last one received, which no gap shows. `by_policer`: red packets counted minus reports received.
    """

    gaps: int
    tail: int
    by_policer: Mapping[str, int]

    @property
    def pool(self) -> int:
        """All reports known to be lost."""
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
    """Count the lost reports from the counts of the collector and of the switch.

    `sent_by_switch` is None for a switch that does not count them: then only gaps are known.
    """
    tail = 0 if sent_by_switch is None else max(0, sent_by_switch - (received - duplicates) - gaps)
    by_policer = {
        name: max(0, red - reported_by_policer.get(name, 0)) for name, red in red_by_policer.items()
    }
    return LostReports(gaps=gaps, tail=tail, by_policer=by_policer)


def in_flight(packets: Packets, capture_end_ns: int, path_ns: int) -> Bools:
    """Mark packets without time to arrive: not received, not reported, sent within `path_ns` of the end."""
    return np.asarray(~packets.received & ~packets.dropped & (packets.sent_ns > capture_end_ns - path_ns))


def path_time_ns(packets: Packets, round_trip_ns: int) -> int:
    """The longest time a packet of this flow can be in flight: a round trip and the longest wait in a queue.

    Sender's and receiver's clocks may differ: only the spread of the transit times is used.
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


def apportion(pool: int, claims: Sequence[int]) -> list[int]:
    """Divide a pool among claims: each gets all that it claims where the pool suffices, else its proportion.

    The last units go to the largest remainders, ties to the earlier claim. No part exceeds its claim.
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

    A lost report names no flow, so only upper bounds are known: a flow gets at most its missing packets, the
    flows of a policer together at most the drops that its counter shows and no report names, all flows
    together at most the reports known to be lost. The remainder stays unexplained. Flows without a policer
    can lose packets only on links.
    """
    result = dict(accounts)
    left = lost.pool
    for policer in dict.fromkeys(name for name in policers.values() if name is not None):
        members = [flow for flow in accounts if policers.get(flow) == policer]
        pool = min(left, lost.by_policer.get(policer, left))
        parts = apportion(pool, [result[flow].unexplained for flow in members])
        left -= sum(parts)
        for flow, part in zip(members, parts, strict=True):
            result[flow] = _with(result[flow], reports_lost=part)
    names = list(result)
    parts = apportion(emulated_losses, [result[flow].unexplained for flow in names])
    for flow, part in zip(names, parts, strict=True):
        result[flow] = _with(result[flow], emulated_losses=part)
    return result


def _with(account: Account, *, reports_lost: int = 0, emulated_losses: int = 0) -> Account:
    return account + Account(0, 0, 0, reports_lost=reports_lost, emulated_losses=emulated_losses)


@dataclass(frozen=True)
class PolicerCheck:
    """Independent counts of one policer: three of its packets, two of its drops."""

    counted_by_colour: int | None
    packets_met: int | None
    sent_in_captures: int | None
    red: int | None
    reported_drops: int
    reports_lost: int
    passed_bytes_counted: int | None = None
    passed_bytes_in_captures: int | None = None

    @property
    def disagreements(self) -> list[str]:
        """A sentence for each pair of counts that differs; empty when all agree."""
        found = []
        known = self.counted_by_colour is not None and self.sent_in_captures is not None
        if known and self.counted_by_colour != self.sent_in_captures:
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
