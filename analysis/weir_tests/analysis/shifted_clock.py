# SPDX-License-Identifier: Apache-2.0
"""Rewrites the times of captures as a host's own clock would have stamped them: offset, drift, steps."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weir.analysis.tables import Ints

_FRACTIONS = {b"\xd4\xc3\xb2\xa1": ("<", 1000), b"\x4d\x3c\xb2\xa1": ("<", 1)}
_FILE_HEADER, _RECORD_HEADER = 24, 16


@dataclass(frozen=True)
class Clock:
    """A clock beside the true one: `offset_ns` and `drift_ppm` from the capture's first packet on.

    Each step (seconds after that packet, size in ns) is added from its time on.
    """

    offset_ns: int = 0
    drift_ppm: float = 0.0
    steps: tuple[tuple[float, int], ...] = ()

    def stamps(self, true_ns: Ints, start_ns: int) -> Ints:
        """Its readings at the true times."""
        since = true_ns - start_ns
        shown = true_ns + self.offset_ns + np.rint(since * (self.drift_ppm * 1e-6)).astype(np.int64)
        for at_s, size_ns in self.steps:
            shown = shown + size_ns * (since >= at_s * 1e9)
        return np.asarray(shown, dtype=np.int64)


def restamp(source: Path, target: Path, clock: Clock, start_ns: int) -> None:
    """Copy a little-endian classic pcap with the times of its records as `clock` shows them."""
    data = bytearray(source.read_bytes())
    order, unit_ns = _FRACTIONS[bytes(data[:4])]
    words = np.dtype(order + "u4")
    starts, at = [], _FILE_HEADER
    while at + _RECORD_HEADER <= len(data):
        starts.append(at)
        at += _RECORD_HEADER + int.from_bytes(data[at + 8 : at + 12], "little")
    raw = np.frombuffer(data, dtype=np.uint8)
    index = np.array(starts)[:, None] + np.arange(8)
    stamps = np.ascontiguousarray(raw[index]).view(words).astype(np.int64)
    shown = clock.stamps(stamps[:, 0] * 1_000_000_000 + stamps[:, 1] * unit_ns, start_ns)
    new = np.stack([shown // 1_000_000_000, shown % 1_000_000_000 // unit_ns], axis=1).astype(words)
    raw[index] = np.ascontiguousarray(new).view(np.uint8)
    target.write_bytes(data)


def first_ns(capture: Path) -> int:
    """The time of the first record of a little-endian classic pcap."""
    head = capture.read_bytes()[: _FILE_HEADER + 8]
    _, unit_ns = _FRACTIONS[head[:4]]
    seconds, fraction = (int.from_bytes(head[at : at + 4], "little") for at in (24, 28))
    return seconds * 1_000_000_000 + fraction * unit_ns


def copy_run(run_dir: Path, target: Path, clocks: Mapping[str, Clock]) -> int:
    """Copy a run directory, the captures of the named hosts as their own clocks would have stamped them.

    Returns the true time from which offsets, drifts and steps count: that of the earliest packet, ns.
    """
    shutil.copytree(run_dir, target, ignore=shutil.ignore_patterns("result.json", "report.html"))
    captures = {path.stem: path for path in (run_dir / "pcap").glob("*.pcap")}
    start_ns = min(first_ns(path) for path in captures.values())
    for host, clock in clocks.items():
        restamp(captures[host], target / "pcap" / captures[host].name, clock, start_ns)
    return start_ns
