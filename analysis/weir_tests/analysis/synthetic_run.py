# SPDX-License-Identifier: Apache-2.0
"""Writes the run directory of a small simulation: flows through exact token buckets.

There are two phases (one policer for all flows, then one per measured flow), two measured flows and a
background flow, ACKs and a control connection. `write_run` returns the tables that `weir_core.join_run` would
make of the captures, so tests need neither captures nor the Rust core. Inferred losses are simulated too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weir.analysis.run_data import Clocks

EPOCH_NS = 1_760_000_000_000_000_000
SWITCH_ZERO_NS = EPOCH_NS - 3_000_000_000
"""The switch's clock starts at 0, 3 s before the run."""
DRIFT_PPM = 12.0
DELAY_NS = 10_000_000
RTT_NS = 20_000_000
FRAME, PAYLOAD, ACK = 1514, 1448, 66
RATE_BPS, BURST_BYTES = 40_000_000, 100_000

PACKET_SCHEMA = pa.schema(
    [
        ("flow", pa.uint32()),
        ("sent_ns", pa.int64()),
        ("wire_length", pa.uint32()),
        ("seq", pa.uint32()),
        ("payload_length", pa.uint32()),
        ("retransmission", pa.bool_()),
        ("judged", pa.bool_()),
        ("inferred_lost", pa.bool_()),
        ("cause", pa.string()),
        ("inferred_at_ns", pa.int64()),
        ("received_ns", pa.int64()),
        ("dropped", pa.bool_()),
        ("policer", pa.uint16()),
        ("colour", pa.uint8()),
        ("packet_number", pa.uint32()),
        ("ingress_ns", pa.uint64()),
    ]
)

FLOW_SCHEMA = pa.schema(
    [
        ("flow", pa.uint32()),
        ("src", pa.string()),
        ("dst", pa.string()),
        ("src_port", pa.uint16()),
        ("dst_port", pa.uint16()),
        ("protocol", pa.uint8()),
        ("min_rtt_ns", pa.int64()),
        ("mean_rtt_ns", pa.float64()),
        ("received_payload_bytes", pa.uint64()),
        ("retransmissions", pa.uint64()),
        ("spurious", pa.uint64()),
    ]
)


@dataclass
class SyntheticJoin:
    """A replacement for `weir_core.join_run`, with the tables that it returns."""

    flows: Any = None
    packets: Any = None
    rtts: Any = None
    records: list[int] = field(default_factory=lambda: [1, 1, 1, 1])
    unmatched: Mapping[str, int] = field(default_factory=lambda: {"reports": 0, "received": 0})
    warnings: list[str] = field(default_factory=list)

    def __call__(
        self, captures: list[tuple[str, list[str]]], reports: str, clocks: Clocks | None = None
    ) -> SyntheticJoin:
        """Return the tables, whatever the captures."""
        return self


@dataclass
class _Bucket:
    name: str
    index: int
    rate_bps: float
    burst_bytes: float
    level: float = 0.0
    last_ns: int = 0
    met: int = 0
    counts: dict[str, list[int]] = field(default_factory=lambda: {"green": [0, 0], "red": [0, 0]})

    def offer(self, at_ns: int, size: int) -> bool:
        if self.met == 0:
            self.level = self.burst_bytes
        else:
            self.level = min(self.burst_bytes, self.level + self.rate_bps / 8e9 * (at_ns - self.last_ns))
        self.last_ns, self.met = at_ns, self.met + 1
        passes = self.level >= size
        self.level -= size if passes else 0
        count = self.counts["green" if passes else "red"]
        count[0] += 1
        count[1] += size
        return passes


def to_switch(at_ns: int) -> int:
    """Convert a time of the hosts' clock to the switch's, which stamps whole microseconds."""
    true_ns = at_ns - SWITCH_ZERO_NS
    return int(true_ns * (1 + DRIFT_PPM * 1e-6)) // 1000 * 1000


def write_run(run_dir: Path, seconds: float = 30.0, seed: int = 1) -> SyntheticJoin:
    """Write `manifest.json` and `collector.json` into `run_dir`; returns the `joiner` for the analysis."""
    rng = np.random.default_rng(seed)
    packets: list[dict[str, Any]] = []
    flows: list[dict[str, Any]] = []
    rtts: list[tuple[int, int, int]] = []
    phases, start_ns = [], EPOCH_NS + 1_000_000_000
    for name, shared in (("shared", True), ("separate", False)):
        phases.append(_phase(name, shared, start_ns, seconds, rng, packets, flows, rtts))
        start_ns += int((seconds + 2) * 1e9)
    drops = sum(packet["dropped"] for packet in packets)
    hosts = ["client", "server1", "server2", "server3"]
    manifest = {
        "schema": 1,
        "name": "demo",
        "run_id": "synthetic",
        "weir_version": "0.1.0",
        "commit": "0" * 40,
        "started_ns": EPOCH_NS,
        "finished_ns": start_ns,
        "complete": True,
        "state": "complete",
        "error": None,
        "target": "softswitch",
        "seed": seed,
        "phases": phases,
        "hosts": [
            {
                "name": host,
                "addresses": [f"10.0.0.{i + 1}"],
                "pcap": f"pcap/{host}.pcap",
                "delay_s": 0.01,
                "capture_received": 1,
                "capture_drops": 0,
            }
            for i, host in enumerate(hosts)
        ],
        "switch": {"stats": {"ports": [{"port": 1}]}, "reports_sent": drops, "clock_offset_hint_ns": None},
        "valid": True,
        "invalid_reasons": [],
    }
    collector = {"schema": 1, "received": drops, "lost": 0, "duplicates": 0, "complete": True, "streams": []}
    (run_dir / "pcap").mkdir(parents=True, exist_ok=True)
    for host in hosts:
        (run_dir / "pcap" / f"{host}.pcap").touch()
    (run_dir / "telemetry.parquet").touch()
    (run_dir / "manifest.json").write_text(json.dumps(manifest))
    (run_dir / "collector.json").write_text(json.dumps(collector))
    return SyntheticJoin(
        flows=pa.Table.from_pylist(flows, FLOW_SCHEMA),
        packets=pa.Table.from_pylist(packets, PACKET_SCHEMA),
        rtts=pa.table(
            {
                "flow": pa.array([r[0] for r in rtts], pa.uint32()),
                "time_ns": pa.array([r[1] for r in rtts], pa.int64()),
                "rtt_ns": pa.array([r[2] for r in rtts], pa.int64()),
            }
        ),
    )


def _phase(
    name: str,
    shared: bool,
    start_ns: int,
    seconds: float,
    rng: np.random.Generator,
    packets: list[dict[str, Any]],
    flows: list[dict[str, Any]],
    rtts: list[tuple[int, int, int]],
) -> dict[str, Any]:
    base = 0 if shared else 10
    if shared:
        buckets = [_Bucket("common", base, RATE_BPS, BURST_BYTES)]
        of = {"measured1": 0, "measured2": 0, "background1": 0}
    else:
        buckets = [_Bucket(f"own{i + 1}", base + i, RATE_BPS / 2, BURST_BYTES / 2) for i in range(2)]
        of = {"measured1": 0, "measured2": 1}
    offered = {"measured1": 23e6, "measured2": 23e6, "background1": 9e6}
    arrivals: list[tuple[int, int, str, int]] = []
    configured = []
    for i, flow_name in enumerate(offered):
        number = len(flows)
        ports = (40_000 + number, 5_201 + number)
        src, dst = f"10.0.0.{i + 2}", "10.0.0.1"
        bucket = of.get(flow_name)
        configured.append(
            {
                "id": f"{name}/{flow_name}",
                "name": flow_name,
                "src_host": f"server{i + 1}",
                "dst_host": "client",
                "src": src,
                "dst": dst,
                "src_port": ports[0],
                "dst_port": ports[1],
                "protocol": 6,
                "cc": "bbr" if i < 2 else "cubic",
                "measured": i < 2,
                "policer": None if bucket is None else buckets[bucket].name,
                "start_s": 0.0,
                "duration_s": seconds,
            }
        )
        for src_, dst_, sport, dport in (
            (src, dst, *ports),
            (dst, src, ports[1], ports[0]),
            (src, dst, ports[0] + 500, ports[1]),
        ):
            forward = (src_, sport) == (src, ports[0])
            flows.append(
                {
                    "flow": len(flows),
                    "src": src_,
                    "dst": dst_,
                    "src_port": sport,
                    "dst_port": dport,
                    "protocol": 6,
                    "min_rtt_ns": RTT_NS + 100_000 if forward else None,
                    "mean_rtt_ns": RTT_NS + 900_000.0 if forward else None,
                    "received_payload_bytes": 0,
                    "retransmissions": 0,
                    "spurious": 0,
                }
            )
        arrivals += _offer(rng, number, flow_name, offered[flow_name], start_ns, seconds)
        # Two packets of a control connection, which pass the flow's policer too.
        for offset in (1_000, int(seconds * 1e9)):
            arrivals.append((start_ns + offset, number + 2, flow_name, 100))
    _send(rng, sorted(arrivals), of, buckets, packets, rtts)
    return {
        "name": name,
        "start_ns": start_ns,
        "end_ns": start_ns + int((seconds + 0.5) * 1e9),
        "policers": [
            {
                "name": b.name,
                "index": b.index,
                "cells": 1,
                "rate_bps": b.rate_bps,
                "burst_bytes": b.burst_bytes,
                "effective_rate_bps": b.rate_bps,
                "effective_burst_bytes": b.burst_bytes,
                "counters": {colour: {"packets": n, "bytes": size} for colour, (n, size) in b.counts.items()},
                "packets_met": b.met,
            }
            for b in buckets
        ],
        "flows": configured,
        "pairs": [
            {
                "flows": [f"{name}/measured1", f"{name}/measured2"],
                "truth": "shared" if shared else "separate",
            }
        ],
    }


def _offer(
    rng: np.random.Generator, number: int, name: str, mean_bps: float, start_ns: int, seconds: float
) -> list[tuple[int, int, str, int]]:
    """Frames of one flow at random times, with a rate that changes every 100 ms."""
    result = []
    for interval in range(int(seconds * 10)):
        factor = 0.85 + 0.15 * rng.gamma(1.0)
        for at in rng.integers(0, 100_000_000, int(mean_bps * factor / 8 / FRAME / 10)):
            result.append((start_ns + interval * 100_000_000 + int(at), number, name, FRAME))
    return result


def _send(
    rng: np.random.Generator,
    arrivals: list[tuple[int, int, str, int]],
    of: Mapping[str, int],
    buckets: list[_Bucket],
    packets: list[dict[str, Any]],
    rtts: list[tuple[int, int, int]],
) -> None:
    """Send every frame through its bucket, in order of time."""
    seq: dict[int, int] = {}
    for sent_ns, number, name, size in arrivals:
        ingress_ns = sent_ns + 20_000 + int(rng.exponential(5_000))
        bucket = buckets[of[name]] if name in of else None
        dropped = bucket is not None and not bucket.offer(sent_ns + 20_000, size)
        data = size == FRAME
        # 0.3 % of the losses are missed, and 0.03 % of the arrivals wrongly inferred lost.
        inferred = data and (dropped != (rng.random() < (0.003 if dropped else 0.0003)))
        arrived_ns = sent_ns + DELAY_NS + 120_000 + int(rng.exponential(400_000))
        packets.append(
            {
                "flow": number,
                "sent_ns": sent_ns,
                "wire_length": size,
                "seq": seq.get(number, 0) % (1 << 32),
                "payload_length": PAYLOAD if data else size - ACK,
                "retransmission": False,
                "judged": data,
                "inferred_lost": inferred,
                "cause": "fast_retransmit" if inferred else None,
                "inferred_at_ns": sent_ns + RTT_NS + 1_500_000 if inferred else None,
                "received_ns": None if dropped else arrived_ns,
                "dropped": dropped,
                "policer": bucket.index if dropped and bucket else None,
                "colour": 2 if dropped else None,
                "packet_number": bucket.met if dropped and bucket else None,
                "ingress_ns": to_switch(ingress_ns) if dropped else None,
            }
        )
        seq[number] = seq.get(number, 0) + (PAYLOAD if data else size - ACK)
        if data and not dropped and rng.random() < 0.5:
            rtts.append((number, arrived_ns + DELAY_NS, arrived_ns + DELAY_NS - sent_ns))
            packets.append(
                {
                    "flow": number + 1,
                    "sent_ns": arrived_ns,
                    "wire_length": ACK,
                    "seq": 0,
                    "payload_length": 0,
                    "retransmission": False,
                    "judged": False,
                    "inferred_lost": False,
                    "dropped": False,
                    "received_ns": arrived_ns + DELAY_NS,
                }
            )
