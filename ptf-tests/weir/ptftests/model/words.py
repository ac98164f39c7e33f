# SPDX-License-Identifier: Apache-2.0
"""Registers and memory words of Tofino 1's pipe 0, for what the harness has no command for.

The harness loads files of blocks as the assembler writes them. Two kinds are used here, both little-endian:
`\\0\\0\\0r`, address (4 bytes), value (4 bytes); and `\\0\\0\\0d`, address in words of 16 bytes (8 bytes),
width in bits (4 bytes), number of words (4 bytes), words. Addresses are in bytes unless they say otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.controlplane.targets.tofino import TOFINO, Encoded

WORD_BITS = 128
MAX_SESSION = 1023
MAX_GROUP = 32767
PORTS_OF_PIPE_0 = 72
_MIRROR = 0x0200_0000 + 0x78_0000 + 0x2_0000
_SESSION_BYTES, _SESSION_CONTROL, _SESSION_WORDS = 32, 20, 5
_MIRROR_ENABLE = 0x8000
_PORT_VALID = 1 << 3
_MAX_ENTRIES = 56  # of 240 bytes, for one session, as the published driver sets it
_MAX_TRUNCATION = 0x3FFF
_TREES = 0x6100_0000_00  # in words: nodes of multicast trees, and from _ROOTS on the first node of each group
_ROOTS = _TREES + 0x10_0000
_PIPES = 0x0278_0000 + 0x4_0000 + 0x3_0000
"""By group, 4 bits each: the pipes that have a tree of it."""
_FIRST_LEVEL, _PORTS_0_TO_63 = 1, 9
_LAST = 1 << 7
_MEMORY = 0x200_0000_0000 | 2 << 30  # in words
_MAP_RAM = 1 << 18
_OVERDRAWN = 0x7F_FFFF  # -1, in 23 bits
_COLUMNS = 12
_ROWS = 1024


def register(address: int, value: int) -> bytes:
    """A block that writes a register."""
    return b"\0\0\0r" + struct.pack("<II", address, value)


def memory(address: int, words: Sequence[int]) -> bytes:
    """A block that writes words from an address, which is in words."""
    data = b"".join(word.to_bytes(WORD_BITS // 8, "little") for word in words)
    return b"\0\0\0d" + struct.pack("<QII", address, WORD_BITS, len(words)) + data


def mirroring() -> bytes:
    """Enable mirroring, in ingress and in egress."""
    return register(_MIRROR + _MIRROR_ENABLE, 0b11)


def mirror_session(session: int, port: int | None, truncate_bytes: int = 0) -> bytes:
    """A mirror session to a port, cut to a length (0: whole); None disables it."""
    at = _MIRROR + session * _SESSION_BYTES
    if port is None:
        return register(at + _SESSION_CONTROL, 0)
    length = min(truncate_bytes or _MAX_TRUNCATION, _MAX_TRUNCATION)
    words = [_PORT_VALID | port << 4] + [0] * (_SESSION_WORDS - 1)
    written = [register(at + 4 * number, word) for number, word in enumerate(words)]
    written.append(register(at + _SESSION_CONTROL, 0b11 | _MAX_ENTRIES << 8 | length << 16))
    return b"".join(written)


def multicast(groups: Mapping[int, Sequence[int]]) -> bytes:
    """All multicast groups, by number: trees in pipe 0, their first nodes, and that they are in that pipe."""
    written, first_nodes = [], {}
    for number, (group, ports) in enumerate(sorted(groups.items())):
        line = 2 + 2 * number  # 0 is no node
        bitmap = sum(1 << port for port in ports)
        # Nodes are numbered by halves of a line.
        node = _FIRST_LEVEL | 2 * (line + 1) << 24
        written.append(memory(_TREES + line, [node, _PORTS_0_TO_63 | _LAST | bitmap << 8]))
        first_nodes[group] = 2 * line
    for row in sorted({group // 4 for group in groups}):
        word = sum(first_nodes.get(4 * row + place, 0) << 20 * place for place in range(4))
        written.append(memory(_ROOTS + row, [word]))
    for row in sorted({group // 8 for group in groups}):
        word = sum(1 << 4 * (group % 8) for group in groups if group // 8 == row)
        written.append(register(_PIPES + 4 * row, word))
    return b"".join(written)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a meter or register: units of 1,024 words, in the order of their addresses."""

    stage: int
    units: tuple[int, ...]

    def write(self, word_number: int, words: Sequence[int]) -> bytes:
        """Write words of one unit, and map them: a unit's row is found by what its map RAM says."""
        number, row = divmod(word_number, _ROWS)
        unit = self.units[number]
        at = _MEMORY | self.stage << 33 | (unit // _COLUMNS) << 14 | (unit % _COLUMNS) << 10 | row
        return memory(at | _MAP_RAM, [number ^ 0x3F] * len(words)) + memory(at, words)

    def fill(self, word: int) -> bytes:
        """Write all words."""
        return b"".join(self.write(number * _ROWS, [word] * _ROWS) for number in range(len(self.units)))


def meter_word(committed: Encoded, peak: Encoded) -> int:
    """A meter's word with both buckets full; one without burst is overdrawn, so that nothing passes."""
    word = 0
    for bucket, level_at, burst_at, rate_at in ((committed, 54, 28, 0), (peak, 77, 41, 14)):
        shift = bucket.burst_exponent - _scale(bucket)
        word |= (bucket.burst_mantissa << shift if bucket != RED else _OVERDRAWN) << level_at
        word |= (bucket.burst_mantissa | bucket.burst_exponent << 8) << burst_at
        word |= (bucket.rate_mantissa | (31 - bucket.rate_exponent) << 9) << rate_at
    return word


def _scale(bucket: Encoded) -> int:
    """The number of low bits that the level of a large bucket lacks."""
    return max(0, bucket.burst_exponent - 14)


GREEN = Encoded(511, 0, 255, 31)
"""A bucket that never empties: that of a cell without a configuration."""
RED = Encoded(0, 31, 0, 0)


def bucket(rate_bytes_per_s: int, burst_bytes: int) -> Encoded:
    """The bucket of a rate and a burst, which may be finer than the driver's kbit; rate or burst 0: none.

    A rate below the slowest of the hardware is the slowest.

    Raises UnsupportedByTargetError.
    """
    if rate_bytes_per_s == 0 or burst_bytes == 0:
        return RED
    slowest = TOFINO.slowest(burst_bytes)
    if rate_bytes_per_s <= slowest.rate_bytes_per_s(TOFINO.clock_hz):
        return slowest
    return TOFINO.encode_bytes(rate_bytes_per_s, burst_bytes)
