# SPDX-License-Identifier: Apache-2.0
"""Scripts: what the two ends of a connection write, and when; and their files (docs/spec/replay.md).

A script describes one connection. Over TCP, each end has an ordered list of blocks: a block waits until a
number of bytes from the other end have arrived, and then writes at given time offsets. This is how WeHe
replays recorded traffic (A. Molavi Kakhki et al., "Identifying Traffic Differentiation in Mobile Networks",
IMC 2015): a response waits for its request and keeps its recorded spacing. Over UDP, the writes are datagrams
and wait for nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

VERSION = 1
MAX_WRITES = 2_000_000
"""Largest number of writes in a script."""
_MAX_BYTES = 10**12
_MAX_S = 10**6

Side = Literal["client", "server"]
Protocol = Literal["tcp", "udp"]
SIDES: tuple[Side, ...] = ("client", "server")


class ScriptError(ValueError):
    """An invalid replay file; the text has the line, what is wrong and what would be valid."""


@dataclass(frozen=True)
class Block:
    """Writes of one end that begin when `after_bytes` bytes from the other end have arrived.

    `writes` are (seconds after that, bytes), in order of time.
    """

    side: Side
    after_bytes: int
    writes: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class Script:
    """Blocks of both ends, in order for each end; `about` describes their origin.

    Over UDP, each write is a datagram.
    """

    blocks: tuple[Block, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    protocol: Protocol = "tcp"

    def of(self, side: Side) -> tuple[Block, ...]:
        """The blocks of one end."""
        return tuple(block for block in self.blocks if block.side == side)

    def bytes_of(self, side: Side) -> int:
        """Total bytes that one end writes."""
        return sum(size for block in self.of(side) for _, size in block.writes)

    @property
    def largest_write(self) -> int:
        """Bytes of the largest write of either end."""
        return max((size for block in self.blocks for _, size in block.writes), default=0)

    @property
    def last_s(self) -> float:
        """Time of the last write in s, if no block waits for the other end."""
        return max((at_s for block in self.blocks for at_s, _ in block.writes), default=0.0)

    @property
    def text(self) -> str:
        """The content of the file: one JSON object per line, of which the first describes the script."""
        head = {
            "weir_replay": VERSION,
            **({} if self.protocol == "tcp" else {"protocol": self.protocol}),
            "client_bytes": self.bytes_of("client"),
            "server_bytes": self.bytes_of("server"),
            **self.about,
        }
        lines = [json.dumps(head, ensure_ascii=False)]
        for block in self.blocks:
            writes = [[round(at_s, 6), size] for at_s, size in block.writes]
            lines.append(json.dumps({block.side: writes, "after": block.after_bytes}))
        return "\n".join(lines) + "\n"

    @property
    def sha256(self) -> str:
        """Digest of all blocks; `about` is not part of it."""
        lines = self.text.splitlines()[1:]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def parse_script(text: str, filename: str) -> Script:
    """Read a replay file; raises ScriptError, which names the line."""
    lines = text.splitlines()
    about = _object(lines[0] if lines else "", f"{filename}:1")
    if about.pop("weir_replay", None) != VERSION:
        raise ScriptError(
            f'{filename}:1: not a replay file; valid: first a line with "weir_replay": {VERSION}, as '
            "`weir trace` writes it"
        )
    protocol = about.pop("protocol", "tcp")
    if protocol not in ("tcp", "udp"):
        raise ScriptError(f"{filename}:1: protocol is {protocol!r}; valid: tcp or udp")
    totals = {side: about.pop(f"{side}_bytes", None) for side in SIDES}
    blocks = tuple(
        _block(line, f"{filename}:{number}") for number, line in enumerate(lines[1:], 2) if line.strip()
    )
    script = Script(blocks, about, protocol)
    _check(script, filename)
    for side, declared in totals.items():
        if declared is not None and declared != script.bytes_of(side):
            raise ScriptError(
                f"{filename}: its {side} writes {script.bytes_of(side)} bytes, "
                f"the first line says {declared}; valid: a whole file"
            )
    return script


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ScriptError(f"{where}: no JSON: {error}; valid: a JSON object on each line") from error
    if not isinstance(found, dict):
        raise ScriptError(f"{where}: {line[:40]} is not a JSON object; valid: such as {_EXAMPLE}")
    return found


_EXAMPLE = '{"server": [[0.0, 14480], [0.02, 2896]], "after": 517}'


def _block(line: str, where: str) -> Block:
    found = _object(line, where)
    side: Side | None = next((side for side in SIDES if side in found), None)
    if side is None or set(found) - {side, "after"}:
        raise ScriptError(f"{where}: keys are {', '.join(found)}; valid: such as {_EXAMPLE}")
    after = found.get("after", 0)
    if not _is_count(after, 0):
        raise ScriptError(f"{where}: after is {after!r}; valid: bytes of the other end, from 0")
    writes = found[side]
    if not isinstance(writes, list) or not writes or not all(_is_write(write) for write in writes):
        raise ScriptError(f"{where}: {side} is not a list of [seconds, bytes]; valid: such as {_EXAMPLE}")
    moments = [at_s for at_s, _ in writes]
    if moments != sorted(moments):
        raise ScriptError(f"{where}: writes are out of order; valid: each no earlier than the one before")
    return Block(side, after, tuple((float(at_s), size) for at_s, size in writes))


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MAX_BYTES


def _is_write(write: object) -> bool:
    if not isinstance(write, list) or len(write) != 2 or not _is_count(write[1], 1):
        return False
    at_s = write[0]
    return isinstance(at_s, int | float) and not isinstance(at_s, bool) and 0 <= at_s <= _MAX_S


def _check(script: Script, filename: str) -> None:
    """Raise ScriptError for a script that could not be played to its end."""
    if not script.blocks:
        raise ScriptError(f"{filename}: has no writes; valid: at least one line such as {_EXAMPLE}")
    writes = sum(len(block.writes) for block in script.blocks)
    if writes > MAX_WRITES:
        raise ScriptError(f"{filename}: {writes} writes; valid: at most {MAX_WRITES}")
    for side in SIDES:
        thresholds = [block.after_bytes for block in script.of(side)]
        if thresholds != sorted(thresholds):
            raise ScriptError(f"{filename}: blocks of the {side} are out of order; valid: after never falls")
    waiting = next((block for block in script.blocks if block.after_bytes), None)
    if script.protocol == "udp" and waiting is not None:
        raise ScriptError(
            f"{filename}: the {waiting.side} waits for {waiting.after_bytes} bytes, and datagrams may be "
            "lost; valid: no after where the protocol is udp"
        )
    stuck = _stuck(script)
    if stuck is not None:
        raise ScriptError(
            f"{filename}: the {stuck.side} waits for {stuck.after_bytes} bytes, more than the other end "
            "writes by then; valid: at most that"
        )


def _stuck(script: Script) -> Block | None:
    """A block that would wait for ever, even on an infinitely fast connection; None if there is none."""
    left = {side: list(script.of(side)) for side in SIDES}
    written = dict.fromkeys(SIDES, 0)
    moved = True
    while moved:
        moved = False
        for side, other in (("client", "server"), ("server", "client")):
            blocks = left[side]  # type: ignore[index]
            done = 0
            while done < len(blocks) and blocks[done].after_bytes <= written[other]:  # type: ignore[index]
                written[side] += sum(size for _, size in blocks[done].writes)  # type: ignore[index]
                done += 1
            del blocks[:done]
            moved = moved or done > 0
    return next((blocks[0] for blocks in left.values() if blocks), None)


def regular_writes(
    size_bytes: int, every_s: float, duration_s: float, on_s: float | None, off_s: float | None
) -> Script:
    """A server that writes `size_bytes` every `every_s` for `duration_s`, in periods of `on_s` and `off_s`.

    Without `on_s` it never pauses. Times are multiples of `every_s` from the start of an on period, so that
    rounding errors do not add up.
    """
    return Script((Block("server", 0, tuple(_moments(size_bytes, every_s, duration_s, on_s, off_s))),))


def _moments(
    size_bytes: int, every_s: float, duration_s: float, on_s: float | None, off_s: float | None
) -> Iterator[tuple[float, int]]:
    on_s, off_s = on_s or duration_s, off_s or 0.0
    begin_s, cycle = 0.0, 0
    while begin_s < duration_s:
        number = 0
        while number * every_s < on_s and begin_s + number * every_s < duration_s:
            yield round(begin_s + number * every_s, 6), size_bytes
            number += 1
        cycle += 1
        begin_s = cycle * (on_s + off_s)


def joined(scripts: Iterable[Script], about: Mapping[str, Any]) -> Script:
    """Scripts in sequence on one connection: each begins when the one before has arrived completely."""
    blocks: list[Block] = []
    before: dict[Side, int] = {"client": 0, "server": 0}
    other: dict[Side, Side] = {"client": "server", "server": "client"}
    for script in scripts:
        for block in script.blocks:
            blocks.append(Block(block.side, before[other[block.side]] + block.after_bytes, block.writes))
        for side in SIDES:
            before[side] += script.bytes_of(side)
    return Script(tuple(blocks), about)
