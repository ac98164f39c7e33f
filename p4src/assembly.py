# SPDX-License-Identifier: Apache-2.0
"""Read the parser in the assembly that p4c writes for Tofino, and run it on a packet.

Only the parts that decide the path through the states and the headers' valid bits are read: rows with their
match, loads of match registers, shifts, and constants written to containers; and Tofino 2's CLOTs, the pieces
of a packet that bypass the pipeline.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PADDING = "min_parse_depth"
"""Prefix of the names of states that the compiler adds: Tofino 1 reads 65 bytes of each packet, whatever is
in them."""
CLOT_GAP_BYTES = 3
"""The least distance of two CLOTs that do not touch. The compiler heeds it only where it sees that they are
near; the chip's model ends at a packet with two that are nearer."""
MOST_STATES = 256
"""No packet passes more states: the hardware has as many rows."""


class AssemblyError(Exception):
    """The assembly has something that this reader does not support, or its parser does not end."""


@dataclass
class Row:
    """A line of a state: its match pattern (hex digits, * for any) and its actions."""

    pattern: str
    loads: dict[str, tuple[int, int]] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    writes: list[tuple[str, int]] = field(default_factory=list)
    clots: list[dict[str, int]] = field(default_factory=list)
    """Each with `start`, from the place in the packet, and `length`."""
    shift: int = 0
    next: str = "end"


@dataclass
class AssemblyState:
    """A state: the registers it matches on, in the order of the pattern's digits, and its rows in order."""

    registers: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


@dataclass
class AssemblyParser:
    """The parser of one direction, and the container and bit of each header's valid bit."""

    start: str
    prefix_bytes: int
    """Length of the metadata that the hardware puts before the packet."""
    states: dict[str, AssemblyState]
    valid_bits: dict[str, tuple[str, int]]

    def selects(self) -> int:
        """Number of states with a row that does not match everything."""
        return sum(any(set(row.pattern) - set("0x*") for row in state.rows) for state in self.states.values())

    def parse(self, packet: bytes) -> tuple[frozenset[str], int]:
        """The headers that are valid after the packet was parsed, and how many of its bytes they take.

        Raises AssemblyError, also if two CLOTs are too near.
        """
        data = bytes(self.prefix_bytes) + packet
        at = 0
        registers: dict[str, int] = {}
        containers: dict[str, int] = {}
        clots: list[tuple[int, int]] = []
        name = self.start
        for _ in range(MOST_STATES):
            if name == "end":
                check_gaps(sorted(clots))
                valid = frozenset(
                    header
                    for header, (container, bit) in self.valid_bits.items()
                    if containers.get(container, 0) >> bit & 1
                )
                return valid, at - self.prefix_bytes
            state = self.states[name]
            row = next(
                (row for row in state.rows if row_matches(row.pattern, state.registers, registers)), None
            )
            if row is None:
                raise AssemblyError(f"state {name} has no row for the packet's match registers")
            for container, value in row.writes:
                containers[container] = containers.get(container, 0) | value
            loaded = {
                register: int.from_bytes(data[at + low : at + high + 1].ljust(high + 1 - low, b"\0"), "big")
                for register, (low, high) in row.loads.items()
            }
            registers |= loaded
            clots += [(at + clot["start"], at + clot["start"] + clot["length"]) for clot in row.clots]
            if not name.startswith(PADDING):
                at += row.shift
            name = row.next
        raise AssemblyError(f"the parser does not end after {MOST_STATES} states")


def check_gaps(clots: list[tuple[int, int]]) -> None:
    """Raise AssemblyError if two CLOTs, as first byte and end in order, overlap or are too near."""
    for (_, end), (start, _) in itertools.pairwise(clots):
        if start < end or 0 < start - end < CLOT_GAP_BYTES:
            raise AssemblyError(
                f"CLOTs end before byte {end} and begin at byte {start}; valid: a distance of 0, or of "
                f"{CLOT_GAP_BYTES} bytes and more"
            )


def register_bytes(register: str) -> int:
    """Bytes of a match register."""
    return 2 if register.startswith("half") else 1


def row_matches(pattern: str, names: list[str], registers: dict[str, int]) -> bool:
    """Whether a row's pattern matches the contents of the match registers."""
    if not names or pattern == "*":
        return True
    bits = "".join(f"{registers.get(name, 0):0{8 * register_bytes(name)}b}" for name in names)
    wanted = pattern_bits(pattern, len(bits))
    return all(want in ("*", bit) for want, bit in zip(wanted, bits, strict=True))


def pattern_bits(pattern: str, width: int) -> str:
    """A pattern of hexadecimal, octal or binary digits and *, as one letter per bit."""
    digit_bits = {"0x": 4, "0o": 3, "0b": 1}.get(pattern[:2])
    if digit_bits is not None:
        base = 1 << digit_bits
        digits = (
            "*" * digit_bits if digit == "*" else f"{int(digit, base):0{digit_bits}b}"
            for digit in pattern[2:]
        )
        return "".join(digits)[-width:].rjust(width, "0")
    return f"{int(pattern):0{width}b}"


def sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """The top-level parts of an assembly: their heading and lines."""
    heading, lines = "", list[str]()
    for line in text.splitlines():
        if line and not line[0].isspace() and not line.startswith("#"):
            if heading:
                yield heading, lines
            heading, lines = line.rstrip(":").strip(), []
        else:
            lines.append(line)
    if heading:
        yield heading, lines


def read_assembly(path: Path) -> dict[str, AssemblyParser]:
    """The parsers of an assembly file by direction, `ingress` and `egress`."""
    parts = dict(sections(path.read_text()))
    made = {}
    for gress in ("ingress", "egress"):
        heading = next((name for name in parts if name.split("[")[0].strip() == f"parser {gress}"), None)
        if heading is None:
            raise AssemblyError(f"{path}: no parser {gress}")
        made[gress] = read_parser(parts[heading], valid_bits(parts.get(f"phv {gress}", [])))
    return made


def valid_bits(lines: list[str]) -> dict[str, tuple[str, int]]:
    """Container and bit of each header's valid bit, from the PHV allocation's section."""
    found = {}
    for line in lines:
        match = re.match(r"\s+(?:(?:in|e)gress::)?hdr\.(\w+)\.\$valid:\s*(.*)", line)
        if match:
            container = re.search(r"\b([A-Z]*[BHW]\d+)(?:\((\d+)\))?", match.group(2))
            if container is None:
                raise AssemblyError(f"no container in: {line.strip()}")
            found[match.group(1)] = (container.group(1), int(container.group(2) or 0))
    return found


def read_parser(lines: list[str], bits: dict[str, tuple[str, int]]) -> AssemblyParser:
    """A parser from its lines."""
    parser = AssemblyParser("", 0, {}, bits)
    state = AssemblyState()
    row = Row("*")
    in_states = False
    for line in lines:
        text = line.split("#")[0].rstrip()
        if not text.strip():
            continue
        indent = len(text) - len(text.lstrip())
        key, _, value = (part.strip() for part in text.partition(":"))
        if not in_states:
            if key == "start":
                parser.start = value
            elif key == "hdr_len_adj":
                parser.prefix_bytes = int(value)
            in_states = key == "states"
        elif indent <= 4:
            state = parser.states.setdefault(key, AssemblyState())
        elif indent == 6:
            if key == "match":
                state.registers = [part.strip() for part in value.strip("[ ]").split(",")]
            elif re.fullmatch(r"\*|0x[0-9a-fA-F*]+|0o[0-7*]+|0b[01*]+|\d+", key):
                row = Row(key)
                state.rows.append(row)
        else:
            read_action(row, key, value)
    return parser


def read_action(row: Row, key: str, value: str) -> None:
    """Read one action of a row."""
    if key == "shift":
        row.shift = int(value)
    elif key == "next":
        row.next = value
    elif key == "load":
        for register, low, high in re.findall(r"(\w+)\s*:\s*(\d+)(?:\.\.(\d+))?", value):
            row.loads[register] = (int(low), int(high or low))
    elif key.startswith("clot "):
        row.clots.append({})
    elif key in ("start", "length"):
        row.clots[-1][key] = int(value)
    elif re.fullmatch(r"[A-Z]*[BHW]\d+", key):
        row.writes.append((key, int(value.split()[0], 0)))
