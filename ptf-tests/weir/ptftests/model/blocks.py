# SPDX-License-Identifier: Apache-2.0
"""Blocks of registers and memory words, as the assembler writes them and the harness loads them.

Two kinds are used here, both little-endian: `\\0\\0\\0r`, address (4 bytes), value (4 bytes); and
`\\0\\0\\0d`, address in words of 16 bytes (8 bytes), width in bits (4 bytes), number of words (4 bytes),
words.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

WORD_BITS = 128


def register(address: int, value: int) -> bytes:
    """A block that writes a register; the address is in bytes."""
    return b"\0\0\0r" + struct.pack("<II", address, value)


def memory(address: int, words: Sequence[int]) -> bytes:
    """A block that writes words from an address, which is in words."""
    data = b"".join(word.to_bytes(WORD_BITS // 8, "little") for word in words)
    return b"\0\0\0d" + struct.pack("<QII", address, WORD_BITS, len(words)) + data
