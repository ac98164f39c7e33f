# SPDX-License-Identifier: Apache-2.0
"""Pairs with their truth as files that anyone can read; docs/spec/path-pairs.md describes them."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir.analysis.detectors.events import FlowEvents
from weir.analysis.errors import PathFilesError
from weir.analysis.paths.pair import PathPair, Source
from weir.analysis.paths.workers import in_processes
from weir.rundir.whole_files import replacing

VERSION = 1
INDEX = "pairs.jsonl"
PACKETS = pa.schema(
    {
        "flow": pa.int8(),
        "sent_ns": pa.int64(),
        "size_bytes": pa.int32(),
        "lost": pa.bool_(),
        "delay": pa.float32(),
    }
)
RTTS = pa.schema({"flow": pa.int8(), "sent_ns": pa.int64(), "rtt_ns": pa.int64()})
_NAME = re.compile(r"[\w.=,+-]+")
_KEYS = ("pair", "source", "part", "truth", "factors", "min_rtt_ns", "jitter_ns", "clock_error_ns")


def write_all(
    sources: Sequence[Source], directory: Path, processes: int | None = None
) -> Generator[list[dict[str, Any]], None, None]:
    """Write the pairs of each source; yields their lines of the index, as they are ready.

    Raises OSError, and what the sources raise.
    """
    yield from in_processes(partial(_write, directory=directory), sources, processes)


def _write(source: Source, *, directory: Path) -> list[dict[str, Any]]:
    return [write_packets(pair, directory) for pair in source.pairs()]


def write_packets(pair: PathPair, directory: Path) -> dict[str, Any]:
    """Write the packets and RTTs of a pair; returns its line of the index. Raises OSError."""
    flows = [_sorted(flow) for flow in pair.flows]
    numbers = np.arange(len(flows))
    packets = {
        "flow": np.repeat(numbers, [len(flow.sent_ns) for flow in flows]),
        "sent_ns": np.concatenate([flow.sent_ns for flow in flows]),
        "size_bytes": np.concatenate([flow.size_bytes for flow in flows]),
        "lost": np.concatenate([flow.lost for flow in flows]),
        "delay": np.concatenate(pair.delays),
    }
    rtts = {
        "flow": np.repeat(numbers, [len(flow.rtt_ns) for flow in flows]),
        "sent_ns": np.concatenate([flow.rtt_sent_ns for flow in flows]),
        "rtt_ns": np.concatenate([flow.rtt_ns for flow in flows]),
    }
    for folder, columns, schema in (("packets", packets, PACKETS), ("rtts", rtts, RTTS)):
        path = _file(directory, folder, pair.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            pq.write_table(pa.table(columns).cast(schema), part, compression="zstd")
    return {
        "weir_paths": VERSION,
        "pair": pair.name,
        "source": pair.source,
        "part": pair.part,
        "truth": pair.truth,
        "factors": dict(pair.factors),
        "min_rtt_ns": [flow.min_rtt_ns for flow in flows],
        "jitter_ns": [flow.jitter_ns for flow in flows],
        "clock_error_ns": max(flow.clock_error_ns for flow in flows),
    }


def add_to_index(lines: list[dict[str, Any]], directory: Path) -> None:
    """Append lines to the index. Raises OSError."""
    with (directory / INDEX).open("a", encoding="utf-8") as index:
        index.writelines(json.dumps(line) + "\n" for line in lines)


@dataclass(frozen=True)
class FromFiles:
    """One pair of a data set: its line of the index."""

    directory: Path
    line: Mapping[str, Any]

    def pairs(self) -> Iterator[PathPair]:
        """Read it; one pair. Raises PathFilesError."""
        line = self.line
        packets = _columns(_file(self.directory, "packets", line["pair"]), PACKETS)
        rtts = _columns(_file(self.directory, "rtts", line["pair"]), RTTS)
        flows, delays = [], []
        try:
            for number in range(2):
                its, sampled = packets["flow"] == number, rtts["flow"] == number
                flows.append(
                    FlowEvents(
                        packets["sent_ns"][its],
                        packets["size_bytes"][its].astype(np.int64),
                        packets["lost"][its],
                        int(line["min_rtt_ns"][number]),
                        int(line["clock_error_ns"]),
                        int(line["jitter_ns"][number]),
                        rtts["sent_ns"][sampled],
                        rtts["rtt_ns"][sampled],
                    )
                )
                delays.append(packets["delay"][its].astype(np.float64))
        except (ValueError, TypeError, IndexError) as error:
            raise PathFilesError(f"{self.directory / INDEX}, pair {line['pair']}: {error}") from error
        (one, other), (early, late) = flows, delays
        yield PathPair(
            name=line["pair"],
            source=str(line["source"]),
            part=str(line["part"]),
            truth=line["truth"],
            factors=line["factors"],
            flows=(one, other),
            delays=(early, late),
        )


def is_data_set(directory: Path) -> bool:
    """Whether the directory holds pairs as files."""
    return (directory / INDEX).is_file()


def read_index(directory: Path) -> list[FromFiles]:
    """The pairs of a data set, not yet read. Raises PathFilesError, which names file and line."""
    path = directory / INDEX
    pairs: dict[str, FromFiles] = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for number, text in enumerate(lines, start=1):
                line = _checked(text, f"{path}, line {number}")
                pairs[line["pair"]] = FromFiles(directory, line)
    except (OSError, UnicodeDecodeError) as error:
        raise PathFilesError(f"{path}: {error}") from error
    return list(pairs.values())


def _checked(text: str, where: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError as error:
        raise PathFilesError(f"{where}: {error}; valid: one JSON object a line") from error
    if not isinstance(line, dict) or line.get("weir_paths") != VERSION:
        raise PathFilesError(f"{where}: valid: an object with weir_paths: {VERSION}")
    missing = [key for key in _KEYS if key not in line]
    if missing:
        raise PathFilesError(f"{where}: no {', '.join(missing)}; valid: an object with {', '.join(_KEYS)}")
    if line["truth"] not in ("shared", "separate"):
        raise PathFilesError(f"{where}: truth {line['truth']!r}; valid: shared, separate")
    if not isinstance(line["factors"], dict):
        raise PathFilesError(f"{where}: factors {line['factors']!r}; valid: an object")
    if not isinstance(line["pair"], str) or not _NAME.fullmatch(line["pair"]):
        raise PathFilesError(f"{where}: pair {line['pair']!r}; valid: the name of its files")
    return line


def _columns(path: Path, schema: pa.Schema) -> dict[str, Any]:
    try:
        table = pq.read_table(path, columns=schema.names)
        return {name: table[name].cast(schema.field(name).type).to_numpy() for name in schema.names}
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise PathFilesError(f"{path}: {error}; valid: columns {', '.join(schema.names)}") from error


def _file(directory: Path, folder: str, name: str) -> Path:
    return directory / folder / f"{name}.parquet"


def _sorted(flow: FlowEvents) -> FlowEvents:
    """The flow with its packets by time, as the delays are."""
    order = np.argsort(flow.sent_ns, kind="stable")
    return FlowEvents(
        flow.sent_ns[order],
        flow.size_bytes[order],
        flow.lost[order],
        flow.min_rtt_ns,
        flow.clock_error_ns,
        flow.jitter_ns,
        flow.rtt_sent_ns,
        flow.rtt_ns,
    )
