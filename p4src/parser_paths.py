# SPDX-License-Identifier: Apache-2.0
"""Every path through the parsers of a P4 source, with a packet for each; reads the subset of P4 that weir
uses.

A compiler that loses a select still exits with 0. So every arm of every select gets a packet that takes it,
and the compiled parser's result for that packet is compared with the source's (`tofino_test.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WILD = (0, 0)
"""A key that matches anything, as value and mask."""
Key = tuple[int, int]


class SourceError(Exception):
    """The source has something that this reader does not support; the message says where and what."""


@dataclass(frozen=True)
class Arm:
    """A line of a select: its keys and the next state."""

    keys: tuple[Key, ...]
    target: str


@dataclass(frozen=True)
class State:
    """A state: the headers it extracts, what it selects on, and its arms (one without keys: always)."""

    name: str
    extracts: tuple[str, ...]
    subjects: tuple[str, ...]
    arms: tuple[Arm, ...]


@dataclass(frozen=True)
class ParserPath:
    """A path through a parser, with a packet that takes it."""

    arms: tuple[tuple[str, int], ...]
    """State and number of the arm."""
    packet: bytes
    headers: frozenset[str]
    header_bytes: int


@dataclass
class Source:
    """The constants, the layouts of headers and the members of their struct that parsers refer to."""

    constants: dict[str, int] = field(default_factory=dict)
    layouts: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    typedefs: dict[str, int] = field(default_factory=dict)

    def width(self, header: str) -> int:
        """Bits of a header of `headers_t`."""
        return sum(bits for _, bits in self.layouts[self.members[header]])

    def slice(self, header: str, name: str) -> tuple[int, int]:
        """Offset in its header, and width, of a field; in bits."""
        offset = 0
        for field_name, bits in self.layouts[self.members[header]]:
            if field_name == name:
                return offset, bits
            offset += bits
        raise SourceError(f"header {header} has no field {name}")


def strip(text: str) -> str:
    """The text without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def read_source(paths: Sequence[Path], widths: dict[str, int]) -> Source:
    """Constants, headers and `headers_t` of some files; `widths` has the bits of the architecture's types."""
    text = "\n".join(strip(path.read_text()) for path in paths)
    source = Source(typedefs=dict(widths))
    for bits, name in re.findall(r"typedef\s+bit<(\d+)>\s+(\w+);", text):
        source.typedefs[name] = int(bits)
    for name, value in re.findall(r"const\s+[\w<>]+\s+(\w+)\s*=\s*(0x[0-9A-Fa-f]+|\d+)\s*;", text):
        source.constants[name] = int(value, 0)
    for name, body in re.findall(r"\bheader\s+(\w+)\s*\{(.*?)\}", text, re.DOTALL):
        source.layouts[name] = [
            (field_name, bits_of(kind, source.typedefs))
            for kind, field_name in re.findall(r"(bit<\d+>|\w+_t|\w+)\s+(\w+)\s*;", body)
        ]
    struct = re.search(r"struct\s+headers_t\s*\{(.*?)\}", text, re.DOTALL)
    if struct is None:
        raise SourceError("no struct headers_t")
    source.members = {name: kind for kind, name in re.findall(r"(\w+)\s+(\w+)\s*;", struct.group(1))}
    return source


def bits_of(kind: str, typedefs: dict[str, int]) -> int:
    """Width of a field's type."""
    literal = re.fullmatch(r"bit<(\d+)>", kind)
    if literal:
        return int(literal.group(1))
    if kind not in typedefs:
        raise SourceError(f"unknown width of type {kind}")
    return typedefs[kind]


def read_parser(path: Path, name: str, source: Source) -> dict[str, State]:
    """The states of a parser by their names."""
    text = strip(path.read_text())
    begin = re.search(rf"\bparser\s+{name}\s*\(", text)
    if begin is None:
        raise SourceError(f"{path}: no parser {name}")
    end = re.search(r"^\}", text[begin.start() :], re.MULTILINE)
    if end is None:
        raise SourceError(f"{path}: parser {name} does not end")
    body = text[begin.start() : begin.start() + end.start()]
    states = {}
    for match in re.finditer(r"\bstate\s+(\w+)\s*\{(.*?)\n    \}", body, re.DOTALL):
        states[match.group(1)] = read_state(match.group(1), match.group(2), source)
    return states


def read_state(name: str, body: str, source: Source) -> State:
    """A state from its text."""
    extracts = tuple(re.findall(r"packet\.extract\(hdr\.(\w+)\)", body))
    direct = re.search(r"transition\s+(\w+)\s*;", body)
    if direct:
        return State(name, extracts, (), (Arm((), direct.group(1)),))
    select = re.search(r"transition\s+select\((.*)\)\s*\{(.*)\}", body, re.DOTALL)
    if select is None:
        raise SourceError(f"state {name} has no transition")
    subjects = tuple(part.strip() for part in split(select.group(1)))
    arms = []
    for keys, target in re.findall(r"([^;{}]+?):\s*(\w+)\s*;", select.group(2)):
        arms.append(Arm(read_keys(keys.strip(), len(subjects), source), target))
    return State(name, extracts, subjects, tuple(arms))


def split(text: str) -> list[str]:
    """Parts between commas that are outside brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([<") - (letter in ")]>")
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def read_keys(text: str, count: int, source: Source) -> tuple[Key, ...]:
    """The keys of an arm, as value and mask of each of `count` subjects."""
    if text in ("default", "_"):
        return (WILD,) * count
    inner = text[1:-1] if text.startswith("(") else text
    return tuple(read_key(part.strip(), source) for part in split(inner))


def read_key(text: str, source: Source) -> Key:
    """One key."""
    if text in ("default", "_"):
        return WILD
    value, _, mask = text.partition("&&&")
    return number(value.strip(), source), number(mask.strip(), source) if mask else -1


def number(text: str, source: Source) -> int:
    """A literal or a constant's value."""
    return source.constants[text] if text in source.constants else int(text, 0)


@dataclass
class Bits:
    """A packet under construction: some bits are settled, the others are still free."""

    settled: dict[int, int] = field(default_factory=dict)

    def settle(self, offset: int, width: int, value: int, mask: int) -> bool:
        """Set bits to their values; False if some already have another value."""
        wanted = {
            offset + at: value >> (width - 1 - at) & 1 for at in range(width) if mask >> (width - 1 - at) & 1
        }
        if any(self.settled.get(at, bit) != bit for at, bit in wanted.items()):
            return False
        self.settled.update(wanted)
        return True

    def copy(self) -> Bits:
        """A copy with the same bits."""
        return Bits(dict(self.settled))

    def value(self, offset: int, width: int) -> int:
        """The value of some bits; free ones are 0."""
        found = 0
        for at in range(offset, offset + width):
            found = found << 1 | self.settled.get(at, 0)
        return found

    def packet(self, length: int) -> bytes:
        """The packet, `length` bytes of it."""
        return self.value(0, 8 * length).to_bytes(length, "big")


def locate(subject: str, source: Source, at: int, offsets: dict[str, int]) -> tuple[int, int]:
    """Position in the packet of a select's subject: offset and width in bits."""
    ahead = re.fullmatch(r"packet\.lookahead<bit<(\d+)>>\(\)(?:\[(\d+):(\d+)\])?", subject)
    if ahead:
        width = int(ahead.group(1))
        if ahead.group(2) is None:
            return at, width
        high, low = int(ahead.group(2)), int(ahead.group(3))
        return at + width - 1 - high, high - low + 1
    of_header = re.fullmatch(r"hdr\.(\w+)\.(\w+)", subject)
    if of_header is None or of_header.group(1) not in offsets:
        raise SourceError(f"a select on {subject}, which has not been extracted")
    offset, width = source.slice(of_header.group(1), of_header.group(2))
    return offsets[of_header.group(1)] + offset, width


def all_paths(
    states: dict[str, State], source: Source, start: str, spare: bytes = 64 * b"\xff"
) -> Iterator[ParserPath]:
    """Every path from a state to accept; the packets have spare bytes after the extracted headers."""
    no_arms: tuple[tuple[str, int], ...] = ()
    todo = [(start, Bits(), 0, dict[str, int](), no_arms)]
    while todo:
        name, bits, at, offsets, taken = todo.pop()
        state = states[name]
        offsets = dict(offsets)
        for header in state.extracts:
            offsets[header] = at
            at += source.width(header)
        fields = [locate(subject, source, at, offsets) for subject in state.subjects]
        for index, arm in enumerate(state.arms):
            for chosen in choices(bits, fields, arm, state.arms[:index]):
                longer = (*taken, (name, index))
                if arm.target == "accept":
                    packet = chosen.packet(at // 8) + spare
                    yield ParserPath(longer, packet, frozenset(offsets), at // 8)
                elif arm.target != "reject":
                    todo.append((arm.target, chosen, at, offsets, longer))


FILLERS = (*range(16), 90, 153, 255, 0x1234, 0xFFFF)


def choices(bits: Bits, fields: Sequence[tuple[int, int]], arm: Arm, before: Sequence[Arm]) -> Iterator[Bits]:
    """Values of an arm's subjects for which it matches and no arm before it does.

    One choice is enough, unless a mask leaves bits free that a later select may read.
    """
    widths = [width for _, width in fields]
    masked = any(0 < mask < (1 << width) - 1 for (_, mask), width in zip(arm.keys, widths, strict=False))
    seen = set[tuple[int, ...]]()
    for filler in FILLERS:
        made = bits.copy()
        for (offset, width), (value, mask) in zip(fields, arm.keys, strict=True):
            full = (1 << width) - 1
            if not made.settle(offset, width, value, mask & full):
                break
            for at in range(width):
                if offset + at not in made.settled:
                    made.settled[offset + at] = filler >> (width - 1 - at) & 1
        else:
            values = [made.value(offset, width) for offset, width in fields]
            if tuple(values) not in seen and not any(matches(values, other) for other in before):
                seen.add(tuple(values))
                yield made
                if not masked:
                    return


def matches(values: Sequence[int], arm: Arm) -> bool:
    """Whether an arm matches these values of the subjects."""
    return all((value ^ key) & mask == 0 for value, (key, mask) in zip(values, arm.keys, strict=True))
