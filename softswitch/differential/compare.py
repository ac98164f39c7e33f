# SPDX-License-Identifier: Apache-2.0
"""Sends two switches the same random entries and packets and reports where they differ.

Runs in a sandbox, started by __main__.py and differential_test.py as
`unshare … python compare.py SWITCH PROGRAM SEED PACKETS FOLDER`; the last line of its output is JSON.
"""

import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from finsy.proto import p4i, p4r
from generate import PORTS, Generator
from google.protobuf import text_format
from peers import MAX_DIGEST_LIST, PATIENCE_S, Frames, Peer, bmv2, weir
from refill import compare_refill
from scenario_links import run
from subjects import REPOSITORY, SUBJECTS, Subject

# Further differences are unlikely to add information.
MAX_DIFFERENCES = 12
SHOWN_BYTES = 120
# Entries change this often while packets pass.
PARTS = 3
CHANGES = 12


@dataclass
class Outcome:
    """The comparison's counts and differences."""

    program: str
    seed: int
    entries: int = 0
    refused_by_both: int = 0
    packets: int = 0
    frames: int = 0
    counters: int = 0
    digests: int = 0
    colours: int = 0
    """Of meters that refill: verdicts where only one colour was possible."""
    open_colours: int = 0
    """Verdicts where more than one was possible."""
    sentinels: int = 0
    differences: list[str] = field(default_factory=list)


def compare_writes(outcome: Outcome, peers: list[Peer], updates: list[p4r.Update]) -> None:
    """Both must accept the same updates; the texts of refusals may differ."""
    ours, theirs = (peer.write(updates) for peer in peers)
    for update, our, their in zip(updates, ours, theirs, strict=True):
        outcome.entries += our == their == "OK"
        outcome.refused_by_both += "OK" not in (our, their)
        if (our == "OK") != (their == "OK"):
            text = " ".join(str(update).split())
            outcome.differences.append(f"write: weir-switch {our}; bmv2 {their}; {text}")


def compare_packets(
    outcome: Outcome, subject: Subject, peers: list[Peer], rng: random.Random, packets: int
) -> None:
    """Send batches of packets into one port, each followed by sentinels; the output must be the same."""
    while outcome.packets < packets and len(outcome.differences) < MAX_DIFFERENCES:
        port = rng.choice(PORTS)
        sent = [subject.packet(rng) for _ in range(subject.batch)]
        seen: list[Frames] = [Counter(), Counter()]
        for peer in peers:
            for frame in sent:
                peer.links.send(port, frame)
        for _ in range(subject.rounds):
            outcome.sentinels += 1
            tag = b"SENTINEL%08d" % outcome.sentinels
            for peer, frames in zip(peers, seen, strict=True):
                for (out, frame), count in peer.links.pass_through(subject.sentinels(tag, port), tag).items():
                    frames[out, subject.blank(frame)] += count
        outcome.packets += len(sent)
        outcome.frames += seen[0].total()
        if seen[0] != seen[1]:
            outcome.differences.append(
                f"packets into port {port}: {[shortened(frame) for frame in sent]}\n"
                f"    only weir-switch: {shown(seen[0] - seen[1])}\n    only bmv2: {shown(seen[1] - seen[0])}"
            )


def shown(frames: Frames) -> list[str]:
    """Frames by port, readable."""
    return [f"{count} × port {port} {shortened(frame)}" for (port, frame), count in sorted(frames.items())]


def shortened(frame: bytes) -> str:
    """A frame's beginning in hex, and its length."""
    return f"{frame[:SHOWN_BYTES].hex()}{'…' * (len(frame) > SHOWN_BYTES)} ({len(frame)} bytes)"


def compare_counters(outcome: Outcome, p4info: p4i.P4Info, peers: list[Peer]) -> None:
    """All cells of all counters, and the counters of all entries."""
    for counter in p4info.counters:
        entity = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=counter.preamble.id))
        ours, theirs = (
            {read.counter_entry.index.index: data(read.counter_entry.data) for read in peer.read(entity)}
            for peer in peers
        )
        outcome.counters += len(ours)
        differ(outcome, counter.preamble.alias, without_zeros(ours), without_zeros(theirs))
    for direct in p4info.direct_counters:
        query = p4r.Entity()
        query.direct_counter_entry.table_entry.table_id = direct.direct_table_id
        our, their = ({key(read): data(counted(read)) for read in peer.read(query)} for peer in peers)
        outcome.counters += len(our)
        differ(outcome, direct.preamble.alias, without_zeros(our), without_zeros(their))


def compare_digests(outcome: Outcome, peers: list[Peer]) -> None:
    """The digests must be the same messages, ours in lists within the configured length.

    bmv2 adds the whole content of one of its buffers to a list before it checks `max_list_size`
    (p4lang/PI, proto/frontend/src/digest_mgr.cpp), so its lists may be longer.
    """
    ours, theirs = peers
    deadline = time.monotonic() + PATIENCE_S
    while ours.digests != theirs.digests and time.monotonic() < deadline:
        time.sleep(0.02)  # the last lists are still in flight
    outcome.digests += len(ours.digests)
    for one, other in ((ours, theirs), (theirs, ours)):
        for digest_id, message in sorted(one.digests - other.digests)[:MAX_DIFFERENCES]:
            outcome.differences.append(f"digest {digest_id}: only {one.name} announced {message}")
    if ours.longest_list > MAX_DIGEST_LIST:
        outcome.differences.append(f"{ours.name} sent a list of {ours.longest_list} digests")


def key(read: p4r.Entity) -> str:
    """The entry of a direct counter."""
    entry = read.direct_counter_entry.table_entry
    matches = sorted(entry.match, key=lambda match: match.field_id)
    return f"{entry.priority} {' '.join(' '.join(str(match).split()) for match in matches)}"


def counted(read: p4r.Entity) -> p4r.CounterData:
    """The data of a direct counter."""
    found: p4r.CounterData = read.direct_counter_entry.data
    return found


def data(counter: p4r.CounterData) -> tuple[int, int]:
    """Packets and bytes."""
    return counter.packet_count, counter.byte_count


def without_zeros(cells: dict[Any, tuple[int, int]]) -> dict[Any, tuple[int, int]]:
    """Cells that are not zero; the others are equal."""
    return {cell: value for cell, value in cells.items() if value != (0, 0)}


def differ(
    outcome: Outcome, name: str, ours: dict[Any, tuple[int, int]], theirs: dict[Any, tuple[int, int]]
) -> None:
    """Note each cell that differs."""
    for cell in sorted(ours.keys() | theirs.keys(), key=str):
        if ours.get(cell) != theirs.get(cell):
            outcome.differences.append(
                f"counter {name}[{cell}]: weir-switch {ours.get(cell)}; bmv2 {theirs.get(cell)}"
            )


def compare(binary: Path, program: str, seed: int, packets: int, folder: Path) -> Outcome:
    """Compare the switches on one program with one seed."""
    subject, outcome = SUBJECTS[program], Outcome(program, seed)
    compiled = REPOSITORY / subject.folder
    name = subject.compiled or program
    p4info_file, blob = compiled / f"{name}.p4info.txtpb", compiled / f"{name}.json"
    p4info = text_format.Parse(p4info_file.read_text(), p4i.P4Info())
    rng = random.Random(f"{program} {seed}")
    with weir(binary, folder) as ours, bmv2(folder) as theirs:
        peers = [ours, theirs]
        for peer in peers:
            peer.push(p4info_file, blob)
            if p4info.digests:
                peer.listen(p4info)
        if subject.refills:
            verdicts = compare_refill(p4info, peers, rng, packets)
            outcome.packets, outcome.entries = verdicts.packets, verdicts.entries
            outcome.colours = verdicts.decided
            outcome.open_colours, outcome.differences = verdicts.open, verdicts.wrong[:MAX_DIFFERENCES]
            return outcome
        generator = Generator(p4info, subject.shape, rng)
        updates = generator.updates()
        compare_writes(outcome, peers, updates)
        for part in range(1, PARTS + 1):
            compare_packets(outcome, subject, peers, rng, packets * part // PARTS)
            compare_writes(outcome, peers, generator.changes(updates, CHANGES))
        compare_counters(outcome, p4info, peers)
        if p4info.digests:
            compare_digests(outcome, peers)
    return outcome


def main(binary: str, program: str, seed: str, packets: str, folder: str) -> None:
    """Compare, and print the outcome."""
    run("ip", "link", "set", "lo", "up")
    outcome = compare(Path(binary), program, int(seed), int(packets), Path(folder))
    print(json.dumps(vars(outcome)))


if __name__ == "__main__":
    main(*sys.argv[1:])
