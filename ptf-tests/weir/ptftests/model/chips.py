# SPDX-License-Identifier: Apache-2.0
"""Tofino 1 and Tofino 2: their models' programs, and where pipe 0 has what these have no command for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weir.controlplane.targets import tofino
from weir.ptftests.model.mirrors import Mirrors, Mirrors1, Mirrors2


@dataclass(frozen=True, slots=True)
class Chip:
    """A chip's addresses, those of memory in words of 16 bytes, those of registers in bytes."""

    target: str
    """The name of its model among the targets of the tests."""
    name: str
    """As in the names of weir's programs."""
    architecture: str
    """As in the P4Info of weir's program."""
    harness: str
    """The program that runs the model from a script."""
    binary: str
    """The name of what the assembler makes."""
    buckets: tofino.Tofino
    """How its driver makes buckets of rates and bursts."""
    model_hz: int
    """The model's clock, of which the meters count the cycles."""
    pauses: int
    """Packets of 8 ns after each one, until the colour that it left is written."""
    trees: int
    """Memory: the nodes of multicast trees."""
    roots: int
    """Memory: the first node of each group, four to a word."""
    pipes: int
    """Registers: the pipes that have a tree of a group, several groups to a register."""
    pipes_bits: int
    """Bits of a group in there."""
    groups_per_register: int
    stage_shift: int
    """Place of the stage's number in an address of memory."""
    mirrors: Mirrors

    @property
    def min_gap_ns(self) -> int:
        """The least time between packets that can be chosen."""
        return 8 * (self.pauses + 2)

    @property
    def program(self) -> Path:
        """Where p4src/binary.py puts weir's program for `make ptf`."""
        return Path("target/p4") / self.name / "pipe" / self.binary


TOFINO1 = Chip(
    target="tofino1-model",
    name="tofino1",
    architecture="tna",
    harness="tofino_test_harness",
    binary="tofino.bin",
    buckets=tofino.TOFINO,
    model_hz=1_250_000_000,
    pauses=1,
    trees=0x61_0000_0000,
    roots=0x61_0010_0000,
    pipes=0x0278_0000 + 0x4_0000 + 0x3_0000,
    pipes_bits=4,
    groups_per_register=8,
    stage_shift=33,
    mirrors=Mirrors1(),
)
TOFINO2 = Chip(
    target="tofino2-model",
    name="tofino2",
    architecture="t2na",
    harness="jbay_test_harness",
    binary="tofino2.bin",
    buckets=tofino.TOFINO2,
    model_hz=1_000_000_000,
    pauses=2,
    trees=0x67_0040_0000,
    roots=0x66_0000_0000,
    pipes=0x04D0_0000,
    pipes_bits=5,
    groups_per_register=4,
    stage_shift=34,
    mirrors=Mirrors2(),
)
CHIPS: Mapping[str, Chip] = {chip.target: chip for chip in (TOFINO1, TOFINO2)}
"""By the target's name."""
