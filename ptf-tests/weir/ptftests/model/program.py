# SPDX-License-Identifier: Apache-2.0
"""A compiled program: the folder with binary, context and P4Info that p4c and its assembler make."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.ptftests.model.chips import Chip
from weir.ptftests.model.words import Memory

CONTEXT = "context.json"


class ProgramError(Exception):
    """The folder holds no program for the model; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Program:
    """What the model loads, and where its meters and registers are."""

    binary: Path
    context: Path
    memories: Mapping[str, Memory]
    """By full name, those of meters and registers."""


def load(chip: Chip, binary: Path, scratch: Path) -> Program:
    """The program of a chip's binary; a changed copy of its context goes to `scratch`.

    Raises ProgramError.
    """
    context = binary.parent / CONTEXT
    try:
        found = json.loads(context.read_text())
    except (OSError, ValueError) as error:
        raise ProgramError(f"{context}: {error}; valid: the assembler's, beside {binary.name}") from error
    changed = scratch / CONTEXT
    _number_wide_tables(found)
    changed.write_text(json.dumps(found))
    memories = {
        table["name"]: memory for table in found["tables"] if (memory := _memory(chip, table)) is not None
    }
    return Program(binary, changed, memories)


def _memory(chip: Chip, table: Mapping[str, Any]) -> Memory | None:
    """The memory of a meter or register; None for other tables."""
    if table["table_type"] not in ("meter", "stateful"):
        return None
    (stage,) = table["stage_tables"]
    units = {
        vpn: unit
        for place in stage["memory_resource_allocation"]["memory_units_and_vpns"]
        for unit, vpn in zip(place["memory_units"], place["vpns"], strict=True)
    }
    return Memory(chip, stage["stage_number"], tuple(units[vpn] for vpn in sorted(units)))


def _number_wide_tables(found: Mapping[str, Any]) -> None:
    """Number the memory of action data wider than a word from 0, as the harness does.

    The assembler's numbers are those of the address bus, which begin at 1 for entries of two words.
    """
    for table in found["tables"]:
        for stage in _stages(table):
            if stage.get("stage_table_type") != "action_data":
                continue
            for place in stage["memory_resource_allocation"]["memory_units_and_vpns"]:
                wide = len(place["memory_units"])
                if wide > 1:
                    place["vpns"] = [vpn // wide * wide for vpn in place["vpns"]]


def _stages(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from table.get("stage_tables", ())
    yield from table.get("match_attributes", {}).get("stage_tables", ())
