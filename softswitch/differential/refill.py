# SPDX-License-Identifier: Apache-2.0
"""Meters that refill while packets arrive: compares colours where the times of arrival permit only one.

The time at which a switch meters a packet is only known to be after the packet was sent and before a later
sentinel was received. That bounds the tokens of a bucket that was full at first: packet n,
metered at t_n, finds T = min over all packets j up to n of B + r (t_n - t_j) - tokens of packets j to n-1.
A packet that fits the least possible T must conform, one that does not fit the greatest must not.
"""

import random
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from finsy.proto import p4i, p4r
from generate import PORTS, SENTINEL_GROUP, canonical
from peers import Peer
from subjects import MACS, SAMPLE_TYPE, multicast

GREEN, RED = 0, 2
# Cells that no other entry uses.
SLOTS = (30, 31, 32)
KEY = 0xC0A800C8
OUT_PORT = 2
GROUP = 24
PAUSES_S = (0.1, 0.5, 1.0, 1.5)
"""Pauses between groups; the buckets below take two to fifteen seconds to fill."""
COLOURS_AT = 14 + 2
HEADER_BYTES = 60
# bmv2 counts whole tokens since its start, so it is off by less than one; weir-switch is exact.
SLACK = {"weir-switch": 0, "bmv2": 1}


@dataclass
class Bucket:
    """Bounds on a bucket that was full before the first packet."""

    rate: int
    """Tokens per second."""
    burst: int
    slack: int
    _met: list[tuple[float, float, int]] = field(default_factory=list)
    """For each packet: earliest and latest time in s, tokens taken before it."""
    _taken: int = 0

    def bounds(self, earliest: float, latest: float) -> tuple[float, float]:
        """Fewest and most tokens that a packet may find; packets are in order."""
        self._met.append((earliest, latest, self._taken))
        fewest = most = float(self.burst)
        for early, late, taken in self._met:
            used = self._taken - taken
            fewest = min(fewest, self.burst + self.rate * max(0.0, earliest - late) - used)
            most = min(most, self.burst + self.rate * (latest - early) - used)
        return fewest - self.slack, most + self.slack

    def take(self, tokens: int) -> None:
        """Record that the last packet conformed."""
        self._taken += tokens


@dataclass
class Meter:
    """A two-rate meter (RFC 2698) with bounds on its buckets."""

    peak: Bucket
    committed: Bucket

    def possible(self, tokens: int, earliest: float, latest: float) -> set[int]:
        """The possible colours of a packet."""
        fewest_p, most_p = self.peak.bounds(earliest, latest)
        fewest_c, most_c = self.committed.bounds(earliest, latest)
        found = set()
        if fewest_p < tokens:
            found.add(RED)
        if most_p >= tokens:
            found |= ({GREEN} if most_c >= tokens else set()) | ({1} if fewest_c < tokens else set())
        return found

    def got(self, tokens: int, colour: int) -> None:
        """Record the packet's actual colour."""
        if colour != RED:
            self.peak.take(tokens)
        if colour == GREEN:
            self.committed.take(tokens)


def config(rng: random.Random, scale: int) -> p4r.MeterConfig:
    """Slow rates: with arrival times known to some hundred ms, the colours of few packets are uncertain."""
    rate, burst = rng.randrange(2, 5), rng.randrange(4, 10)
    return p4r.MeterConfig(
        cir=rate * scale // 2, cburst=burst * scale, pir=rate * scale, pburst=(burst + 6) * scale
    )


def meter(given: p4r.MeterConfig, slack: int) -> Meter:
    """The meter with this configuration."""
    return Meter(Bucket(given.pir, given.pburst, slack), Bucket(given.cir, given.cburst, slack))


def frame(slot: int, number: int, payload_bytes: int) -> bytes:
    """A sample of `mixture` with a number."""
    head = MACS[0].to_bytes(6, "big") + MACS[1].to_bytes(6, "big") + struct.pack("!H", SAMPLE_TYPE)
    sample = struct.pack("!BBBBI", 0, slot, 0, 0, KEY).ljust(HEADER_BYTES, b"\0")
    return head + sample + struct.pack("!4sI", b"REFL", number) + bytes(payload_bytes)


def setup(
    p4info: p4i.P4Info, configs: dict[int, tuple[p4r.MeterConfig, p4r.MeterConfig]]
) -> Iterator[p4r.Update]:
    """The sentinels' group, a route, and both meters of each slot: bytes by index, packets by entry."""

    def of(objects: object, alias: str) -> int:
        found: int = next(o.preamble.id for o in objects if o.preamble.alias == alias)  # type: ignore[attr-defined]
        return found

    update = p4r.Update(type=p4r.Update.INSERT)
    group = update.entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = SENTINEL_GROUP
    for port in PORTS:
        group.replicas.add(egress_port=port, instance=1)
    yield update
    update = p4r.Update(type=p4r.Update.INSERT)
    route = update.entity.table_entry
    route.table_id = of(p4info.tables, "route")
    prefix = route.match.add(field_id=1).lpm
    prefix.value, prefix.prefix_len = canonical(KEY), 32
    route.action.action.action_id = of(p4info.actions, "to_port")
    route.action.action.params.add(param_id=1, value=canonical(OUT_PORT))
    yield update
    for slot, (indirect, direct) in configs.items():
        update = p4r.Update(type=p4r.Update.MODIFY)
        cell = update.entity.meter_entry
        cell.meter_id, cell.index.index = of(p4info.meters, "policer"), slot
        cell.config.CopyFrom(indirect)
        yield update
        update = p4r.Update(type=p4r.Update.INSERT)
        entry = update.entity.table_entry
        entry.table_id, entry.priority = of(p4info.tables, "special"), 1
        entry.match.add(field_id=1).exact.value = canonical(slot)
        entry.action.action.action_id = of(p4info.actions, "pass")
        entry.meter_config.CopyFrom(direct)
        yield update


@dataclass
class Verdicts:
    """Counts of certain colours, of uncertain ones, and the impossible ones."""

    decided: int = 0
    open: int = 0
    packets: int = 0
    entries: int = 0
    wrong: list[str] = field(default_factory=list)


class Watched:
    """One switch with bounds on its meters."""

    def __init__(self, peer: Peer, configs: dict[int, tuple[p4r.MeterConfig, p4r.MeterConfig]]) -> None:
        """Start with full buckets."""
        slack = SLACK[peer.name]
        self._peer = peer
        self._meters = {slot: (meter(a, slack), meter(b, slack)) for slot, (a, b) in configs.items()}

    def send(self, group: list[tuple[int, int, bytes]], tag: bytes, verdicts: Verdicts) -> None:
        """Send packets (slot, number, bytes) at once; judge the colours of the output."""
        earliest = time.monotonic()
        for _, _, sent in group:
            self._peer.links.send(PORTS[0], sent)
        left = self._peer.links.pass_through(multicast(tag, PORTS[0]), tag)
        latest = time.monotonic()
        colours = {
            int.from_bytes(out[14 + HEADER_BYTES + 4 :][:4], "big"): out[COLOURS_AT]
            for port, out in left
            if port == OUT_PORT and out[14 + HEADER_BYTES :][:4] == b"REFL"
        }
        for slot, number, sent in group:
            if number not in colours:
                verdicts.wrong.append(f"{self._peer.name}: packet {number} did not come out")
                continue
            indirect, direct = self._meters[slot]
            got = colours[number]
            for kind, watched, tokens, colour in (
                ("bytes", indirect, len(sent), got >> 4 & 3),
                ("packets", direct, 1, got & 3),
            ):
                possible = watched.possible(tokens, earliest, latest)
                if colour not in possible:
                    verdicts.wrong.append(
                        f"{self._peer.name}: packet {number}, {len(sent)} bytes, {kind} meter {slot}: colour "
                        f"{colour}; only {sorted(possible)} possible from {earliest:.4f} to {latest:.4f} s"
                    )
                elif len(possible) == 1:
                    verdicts.decided += 1
                else:
                    verdicts.open += 1
                watched.got(tokens, colour)


def compare_refill(p4info: p4i.P4Info, peers: list[Peer], rng: random.Random, packets: int) -> Verdicts:
    """Send groups of packets with pauses in which buckets fill in part; compare the colours."""
    configs = {slot: (config(rng, 100), config(rng, 1)) for slot in SLOTS}
    verdicts = Verdicts()
    for peer in peers:
        outcomes = peer.write(setup(p4info, configs))
        verdicts.entries = len(outcomes)
        verdicts.wrong += [f"{peer.name}: {outcome}" for outcome in outcomes if outcome != "OK"]
    watched = [Watched(peer, configs) for peer in peers]
    round_number = 0
    while verdicts.packets < packets and not verdicts.wrong:
        round_number += 1
        numbers = range(verdicts.packets, verdicts.packets + rng.randrange(1, GROUP))
        group = [
            (slot, n, frame(slot, n, rng.randrange(200))) for n in numbers for slot in [rng.choice(SLOTS)]
        ]
        for one in watched:
            one.send(group, b"SENTINEL%08d" % round_number, verdicts)
        verdicts.packets += len(group)
        time.sleep(rng.choice(PAUSES_S))  # the source's pace
    return verdicts
