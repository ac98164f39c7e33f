# SPDX-License-Identifier: Apache-2.0
"""The links of the embedded switch in an experiment: one for each port of a host or collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from weir.controlplane.attach import Attachment
from weir.controlplane.config import ChangeConfig, ExperimentConfig, HostConfig, queue_bytes
from weir.controlplane.entities import Link

_DEFAULT_BURST_NS = 1_000_000
_LEAST_DEFAULT_BURST_BYTES = 3_000
"""Default burst of a shaped queue: 1 ms at its rate, at least 3 kB; as in weir-switch's options."""


def links_of(
    experiment: ExperimentConfig, attachment: Attachment, changes: Iterable[ChangeConfig] = ()
) -> Iterator[Link]:
    """The link of every used port once `changes` are made; that of a collector is the default."""
    deflect_to = next(iter(attachment.collectors.values())).port
    hosts = dict(experiment.hosts)
    for change in changes:
        if change.host is not None:
            hosts[change.host] = change.applied_to(hosts[change.host])
    for name, host in hosts.items():
        yield _link(host, queue_bytes(experiment, name), attachment.hosts[name].port, deflect_to)
    for port in dict.fromkeys(collector.port for collector in attachment.collectors.values()):
        yield Link(port)


def _link(host: HostConfig, limit_bytes: int, port: int, deflect_to: int) -> Link:
    link = Link(
        port,
        delay_ns=host.delay,
        jitter_ns=host.jitter,
        reorder=host.reorder,
        loss_ppb=host.loss,
        line_rate_bps=host.line_rate or None,
    )
    if host.rate is None:
        return link
    if host.burst is None:
        burst_bytes = max(host.rate * _DEFAULT_BURST_NS // 8 // 10**9, _LEAST_DEFAULT_BURST_BYTES)
    else:
        burst_bytes = host.burst.bytes_at(host.rate)
    return replace(
        link,
        rate_bps=host.rate,
        burst_bytes=burst_bytes,
        limit_bytes=limit_bytes,
        limit_packets=host.queue_packets,
        deflect_to=deflect_to,
    )
