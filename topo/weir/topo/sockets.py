# SPDX-License-Identifier: Apache-2.0
"""Samples the TCP state of the experiment's flows at their senders, and writes `sockets.parquet`."""

import threading
import time
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from weir.rundir.whole_files import part_of, replacing
from weir.topo.linux import in_network_namespace
from weir.topo.tcpdiag import Connection, TcpDiag, TcpInfo
from weir.topo.testbed import Testbed
from weir.topo.traffic import FlowSpec, data_connection

DEFAULT_INTERVAL_S = 0.1
_ROWS_PER_GROUP = 5000

# One row per sample and socket, in order of time. `time_ns` is CLOCK_REALTIME.
SCHEMA = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("host", pa.string(), nullable=False),
        pa.field("src", pa.string(), nullable=False),
        pa.field("dst", pa.string(), nullable=False),
        pa.field("src_port", pa.uint16(), nullable=False),
        pa.field("dst_port", pa.uint16(), nullable=False),
        pa.field("congestion_control", pa.string()),
        pa.field("state", pa.string(), nullable=False),
        pa.field("rtt_ns", pa.int64()),
        pa.field("min_rtt_ns", pa.int64()),
        pa.field("cwnd", pa.uint32(), nullable=False),
        pa.field("ssthresh", pa.uint32()),
        pa.field("pacing_rate_bps", pa.uint64()),
        pa.field("delivery_rate_bps", pa.uint64(), nullable=False),
        pa.field("bytes_sent", pa.uint64(), nullable=False),
        pa.field("bytes_retrans", pa.uint64(), nullable=False),
        pa.field("bytes_acked", pa.uint64(), nullable=False),
        pa.field("delivered", pa.uint32(), nullable=False),
        pa.field("lost", pa.uint32(), nullable=False),
        pa.field("retrans_total", pa.uint32(), nullable=False),
        pa.field("unacked", pa.uint32(), nullable=False),
        pa.field("in_flight", pa.int64(), nullable=False),
        pa.field("segments_received", pa.uint32(), nullable=False),
        pa.field("bbr_bandwidth_bps", pa.uint64()),
        pa.field("bbr_min_rtt_ns", pa.int64()),
        pa.field("bbr_pacing_gain", pa.float64()),
        pa.field("bbr_cwnd_gain", pa.float64()),
        pa.field("bbr_version", pa.uint8()),
        pa.field("bbr_phase", pa.string()),
        pa.field("bbr_max_bw_bps", pa.uint64()),
        pa.field("bbr_bw_shortterm_bps", pa.uint64()),
        pa.field("bbr_inflight_shortterm", pa.uint32()),
        pa.field("bbr_inflight_longterm", pa.uint32()),
        pa.field("bbr_extra_acked", pa.uint32()),
    ],
    metadata={"weir.schema_version": "1"},
)


class SocketSampler:
    """A thread that samples the flows given to `watch`; a context manager.

    `stop` writes the remaining rows and gives the file its final name. Without it, the unfinished file keeps
    its `.part` name.
    """

    def __init__(self, testbed: Testbed, path: Path, *, interval_s: float = DEFAULT_INTERVAL_S) -> None:
        """Prepare; entering the context starts the thread."""
        self.samples = 0
        self.missed_ticks = 0
        self.cpu_s = 0.0
        self._testbed = testbed
        self._path = path
        self._part = part_of(path)
        self._interval_s = interval_s
        self._watched: dict[str, tuple[Connection, ...]] = {}
        self._diags: dict[str, TcpDiag] = {}
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="socket-sampler", daemon=True)

    def watch(self, flows: Iterable[FlowSpec]) -> None:
        """Sample these TCP flows from now on, in place of the previous ones; call it before they start."""
        watched: dict[str, set[Connection]] = {}
        for flow in (flow for flow in flows if flow.congestion_control is not None):
            watched.setdefault(flow.source, set()).add(data_connection(self._testbed, flow))
            if flow.source not in self._diags:
                namespace = self._testbed.host(flow.source).namespace
                self._diags[flow.source] = in_network_namespace(namespace, TcpDiag)
        # A single assignment, so that the thread sees either the old flows or the new ones.
        self._watched = {host: tuple(sorted(connections)) for host, connections in watched.items()}

    def stop(self) -> None:
        """End sampling and complete the file. Raises the error with which sampling failed, if any."""
        self._finish()
        if self._error is not None:
            raise self._error
        self._part.rename(self._path)

    def __enter__(self) -> Self:
        """Start sampling."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the thread and close its sockets."""
        self._finish()
        for diag in self._diags.values():
            diag.close()

    def _finish(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with pq.ParquetWriter(self._part, SCHEMA, compression="zstd") as writer:
                self._sample_until_told(writer)
        except BaseException as error:  # raised again by stop()
            self._error = error
        self.cpu_s = time.thread_time()

    def _sample_until_told(self, writer: pq.ParquetWriter) -> None:
        columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
        due = time.monotonic()
        while not self._ending.wait(max(0.0, due - time.monotonic())):
            for host, connections in self._watched.items():
                time_ns = time.time_ns()
                for info in self._diags[host].sample(connections):
                    _append(columns, time_ns, host, info)
                    self.samples += 1
            if len(columns["time_ns"]) >= _ROWS_PER_GROUP:
                _flush(writer, columns)
            due += self._interval_s
            late = int(max(0.0, time.monotonic() - due) / self._interval_s)
            self.missed_ticks += late
            due += late * self._interval_s
        _flush(writer, columns)


def write_samples(path: Path, samples: Iterable[tuple[int, str, TcpInfo]]) -> None:
    """Write time in ns, host and state of sockets as a whole file."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    with replacing(path) as part, pq.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
        for time_ns, host, info in samples:
            _append(columns, time_ns, host, info)
            if len(columns["time_ns"]) >= _ROWS_PER_GROUP:
                _flush(writer, columns)
        _flush(writer, columns)


def _append(columns: dict[str, list[Any]], time_ns: int, host: str, info: TcpInfo) -> None:
    source, source_port, destination, destination_port = info.connection
    columns["time_ns"].append(time_ns)
    columns["host"].append(host)
    columns["src"].append(str(ip_address(source)))
    columns["dst"].append(str(ip_address(destination)))
    columns["src_port"].append(source_port)
    columns["dst_port"].append(destination_port)
    for name in SCHEMA.names[6:]:
        columns[name].append(getattr(info, name))


def _flush(writer: pq.ParquetWriter, columns: dict[str, list[Any]]) -> None:
    if columns["time_ns"]:
        writer.write_table(pa.table(columns, schema=SCHEMA))
        for values in columns.values():
            values.clear()
