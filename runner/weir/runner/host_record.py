# SPDX-License-Identifier: Apache-2.0
"""The hosts of a run's manifest, with their links and queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weir.controlplane.attach import HostPort
from weir.controlplane.config import ExperimentConfig, HostConfig, queue_bytes
from weir.controlplane.targets.bmv2_queues import DEFAULT_PACKETS
from weir.rundir.manifest import ClockReading, Host, ReceiveQueue
from weir.topo.capture import CaptureResult
from weir.topo.receive_queue import QueueCounts

NS = PPB = 1_000_000_000


def host_record(
    experiment: ExperimentConfig,
    port: HostPort,
    captured: CaptureResult,
    run_dir: Path,
    clock: tuple[ClockReading, ...] | None,
    counts: QueueCounts | None,
) -> Host:
    """A captured host as the manifest has it; `counts` are those of its receive queue."""
    host = experiment.hosts[captured.host]
    known: dict[str, Any] = _queue(experiment, captured.host)
    if clock is not None:
        known["clock"] = clock
    if captured.fetched is not None:
        known["capture_bytes"] = captured.fetched.size
        known["fetched_bytes"] = captured.fetched.travelled
    return Host(
        name=captured.host,
        addresses=port.addresses,
        pcap=str(captured.path.relative_to(run_dir)),
        delay_s=host.delay / NS,
        jitter_s=host.jitter / NS,
        reorder=host.reorder,
        rate_bps=host.rate,
        loss=host.loss / PPB,
        line_rate_bps=host.line_rate or None,
        packet_cost_s=host.packet_cost / NS,
        receive_queue=_receive_queue(host, counts),
        capture_received=captured.captured,
        capture_drops=captured.lost,
        **known,
    )


def receive_queue_notes(hosts: Iterable[Host]) -> Iterator[str]:
    """A note for each receive queue, whose drops neither the switch nor the captures see."""
    for host in hosts:
        queue = host.receive_queue
        if queue is None:
            continue
        marked = "" if queue.marked is None else f" and marked {queue.marked:,}"
        yield (
            f"the receive queue of {host.name} ({queue.discipline}) passed on {queue.sent:,} of the frames "
            f"that had arrived there, and dropped {queue.dropped:,}{marked}: the switch dropped none of these"
        )


def _receive_queue(host: HostConfig, counts: QueueCounts | None) -> ReceiveQueue | None:
    asked = host.receive_queue
    if asked is None or counts is None:
        return None
    return ReceiveQueue(discipline=asked.discipline, rate_bps=asked.rate, **asdict(counts))


def _queue(experiment: ExperimentConfig, host: str) -> dict[str, int | None]:
    """Limits of the switch's queue to a host, as the manifest names them."""
    asked = experiment.hosts[host]
    if asked.rate is None:
        return {"queue_bytes": None}
    if experiment.switch.target == "bmv2":
        return {"queue_packets": asked.queue_packets or DEFAULT_PACKETS}
    packets = {} if asked.queue_packets is None else {"queue_packets": asked.queue_packets}
    return {"queue_bytes": queue_bytes(experiment, host), **packets}
