# SPDX-License-Identifier: Apache-2.0
"""Memory words of pipe 0: multicast trees, meters and registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir.controlplane.targets.tofino import Encoded
from weir.ptftests.model.blocks import memory, register
from weir.ptftests.model.chips import Chip

MAX_GROUP = 32767
_FIRST_LEVEL, _PORTS_0_TO_63 = 1, 9
_LAST = 1 << 7
_MEMORY = 0x200_0000_0000 | 2 << 30
_MAP_RAM = 1 << 18
_OVERDRAWN = 0x7F_FFFF  # -1, in 23 bits
_COLUMNS = 12
_ROWS = 1024


def multicast(chip: Chip, groups: Mapping[int, Sequence[int]]) -> bytes:
    """All multicast groups, by number: trees in pipe 0, their first nodes, and that they are in that pipe."""
    written, first_nodes = [], {}
    for number, (group, ports) in enumerate(sorted(groups.items())):
        line = 2 + 2 * number  # 0 is no node
        bitmap = sum(1 << port for port in ports)
        # Nodes are numbered by halves of a line.
        node = _FIRST_LEVEL | 2 * (line + 1) << 24
        written.append(memory(chip.trees + line, [node, _PORTS_0_TO_63 | _LAST | bitmap << 8]))
        first_nodes[group] = 2 * line
    for row in sorted({group // 4 for group in groups}):
        word = sum(first_nodes.get(4 * row + place, 0) << 20 * place for place in range(4))
        written.append(memory(chip.roots + row, [word]))
    together = chip.groups_per_register
    for row in sorted({group // together for group in groups}):
        word = sum(1 << chip.pipes_bits * (group % together) for group in groups if group // together == row)
        written.append(register(chip.pipes + 4 * row, word))
    return b"".join(written)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a meter or register: units of 1,024 words, in the order of their addresses."""

    chip: Chip
    stage: int
    units: tuple[int, ...]

    def write(self, word_number: int, words: Sequence[int]) -> bytes:
        """Write words of one unit, and map them: a unit's row is found by what its map RAM says."""
        number, row = divmod(word_number, _ROWS)
        unit = self.units[number]
        at = (
            _MEMORY
            | self.stage << self.chip.stage_shift
            | (unit // _COLUMNS) << 14
            | (unit % _COLUMNS) << 10
            | row
        )
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


def bucket(chip: Chip, rate_bytes_per_s: int, burst_bytes: int) -> Encoded:
    """The bucket of a rate and a burst, which may be finer than the driver's kbit; rate or burst 0: none.

    A rate below the slowest of the hardware is the slowest.

    Raises UnsupportedByTargetError.
    """
    if rate_bytes_per_s == 0 or burst_bytes == 0:
        return RED
    slowest = chip.buckets.slowest(burst_bytes)
    if rate_bytes_per_s <= slowest.rate_bytes_per_s(chip.buckets.clock_hz):
        return slowest
    return chip.buckets.encode_bytes(rate_bytes_per_s, burst_bytes)
