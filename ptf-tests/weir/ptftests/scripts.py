# SPDX-License-Identifier: Apache-2.0
"""Read the tests that p4testgen generated (`p4src/generated`): entries, a frame, and what must leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from finsy import P4MeterConfig, P4MeterEntry

from weir.controlplane.entities import CloneSession, Match, TableEntry
from weir.ptftests.control import Writable
from weir.ptftests.entries import LOWEST_RATE_BYTES_PER_S
from weir.ptftests.traffic import Frames

FOLDER = Path(__file__).resolve().parents[3] / "p4src" / "generated"
_SEPARATOR = "# test "
_DIGIT_BITS = {"0x": 4, "0b": 1}


class ScriptError(Exception):
    """A script has an unknown line; the message has it."""


@dataclass(frozen=True, slots=True)
class Script:
    """One generated test."""

    name: str
    written: tuple[Writable, ...]
    port: int
    frame: bytes
    expected: Mapping[int, tuple[str | None, ...]]
    """Frames that must leave, by port: hexadecimal digits, * for any; None for any frame."""
    mirrored: Mapping[str, int] | None = None
    """Metadata of Tofino's mirrored copy for a collector."""

    @property
    def ports(self) -> set[int]:
        """Ports of the frame, of the frames that must leave and of mirror sessions."""
        mirrored = (entity.ports for entity in self.written if isinstance(entity, CloneSession))
        return {self.port, *self.expected, *(port for ports in mirrored for port in ports)}

    def problem(self, left: Frames) -> str | None:
        """How the frames that left differ from the expected ones; None if they do not."""
        for port in sorted(left.keys() | self.expected.keys()):
            frames, patterns = left.get(port, []), self.expected.get(port, ())
            if len(frames) != len(patterns):
                return f"{len(frames)} frames left through port {port}, {len(patterns)} had to"
            for frame, pattern in zip(frames, patterns, strict=True):
                if pattern is not None and not matches(frame.hex(), pattern):
                    return f"port {port} sent {frame.hex()}, not {pattern}"
        return None


def read(path: Path) -> Iterator[Script]:
    """The scripts of a file. Raises ScriptError."""
    for part in path.read_text().split(_SEPARATOR)[1:]:
        number, _, text = part.partition("\n")
        yield _script(f"{path.stem} {number}", text)


def _script(name: str, text: str) -> Script:
    written: list[Writable] = []
    expected: dict[int, list[str | None]] = {}
    sent: tuple[int, bytes] | None = None
    mirrored: dict[str, int] | None = None
    for line in text.splitlines():
        match line.split():
            case ["add", *words]:
                written.append(_entry(words))
            case ["mirroring_add", session, port]:
                written.append(CloneSession(int(session), (int(port),)))
            case ["meter_set_rates", meter, cell, committed, peak]:
                written.append(_meter(meter, int(cell), committed, peak))
            case ["packet", port, frame]:
                sent = int(port), bytes.fromhex(frame)
            case ["expect", port, *frame]:
                expected.setdefault(int(port), []).append(frame[0].rstrip("$").lower() if frame else None)
            case ["mirrored", *fields]:
                mirrored = {field: int(value) for field, _, value in (word.partition(":") for word in fields)}
            case _:
                raise ScriptError(f"test {name}: {line!r}")
    if sent is None:
        raise ScriptError(f"test {name} sends no packet")
    frames = {port: tuple(patterns) for port, patterns in expected.items()}
    return Script(name, tuple(written), *sent, frames, mirrored)


def _entry(words: Sequence[str]) -> TableEntry:
    """`TABLE [PRIORITY] FIELD:VALUE… ACTION(NAME:VALUE,…)`; priorities count from 0, P4Runtime's from 1."""
    table, *rest, call = words
    priority = 0
    if rest and ":" not in rest[0]:
        priority = int(rest.pop(0)) + 1
    action, _, args = call.rstrip(")").partition("(")
    given = [arg.rpartition(":") for arg in args.split(",") if arg]
    matches = [_match(*field.rpartition(":")[::2]) for field in rest]
    return TableEntry(
        _last(table),
        tuple(sorted(match for match in matches if match.mask != 0)),
        _last(action),
        tuple(sorted((_last(name), int(value, 0)) for name, _, value in given)),
        priority,
    )


def _match(name: str, text: str) -> Match:
    bits = _DIGIT_BITS.get(text[:2])
    if bits is None or "*" not in text:
        return Match(_last(name), int(text, 0))
    value = mask = 0
    for digit in text[2:]:
        value, mask = value << bits, mask << bits
        if digit != "*":
            value, mask = value | int(digit, 16), mask | (1 << bits) - 1
    return Match(_last(name), value, mask)


def _meter(name: str, cell: int, committed: str, peak: str) -> P4MeterEntry:
    bursts = [int(text.partition(":")[2]) for text in (committed, peak)]
    rate = LOWEST_RATE_BYTES_PER_S
    config = P4MeterConfig(cir=rate, cburst=bursts[0], pir=rate, pburst=bursts[1])
    return P4MeterEntry(_last(name), index=cell, config=config)


def _last(name: str) -> str:
    """A name without those of its enclosing controls."""
    return name.rpartition(".")[2]


def matches(frame: str, pattern: str) -> bool:
    """Whether hexadecimal digits match a pattern."""
    return len(frame) == len(pattern) and all(
        want in ("*", digit) for want, digit in zip(pattern, frame, strict=True)
    )
