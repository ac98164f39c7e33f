# SPDX-License-Identifier: Apache-2.0
"""Tuners of hosts: each sets a sysctl by what a classifier says of a flow; `tuning.parquet` records it.

The loop of BBR-ML: features of the flow's socket → class → value → effect on the flow (I. U. Akgun et al.,
"Predicting Network Buffer Capacity for BBR Fairness", section 2.3). It samples the socket ten times a second,
as the samples are made on which classifiers are trained.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir.analysis.classifier.network import Classifier
from weir.analysis.features import feature_values
from weir.controlplane.config import ExperimentConfig
from weir.controlplane.config.model import TunerConfig
from weir.rundir.directory import RunDirectory
from weir.rundir.whole_files import replacing
from weir.runner.classifiers import classifier_of
from weir.topo.hosts import Hosts
from weir.topo.linux import in_network_namespace
from weir.topo.sockets import DEFAULT_INTERVAL_S
from weir.topo.tcpdiag import Connection, TcpDiag, TcpInfo
from weir.topo.traffic import FlowSpec, data_connection

_NS = 1_000_000_000
SCHEMA = pa.schema(
    [
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("host", pa.string(), nullable=False),
        pa.field("flow", pa.string(), nullable=False),
        pa.field("samples", pa.int64(), nullable=False),
        pa.field("sysctl", pa.string(), nullable=False),
        pa.field("predicted", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),
        pa.field("inference_ns", pa.int64(), nullable=False),
    ],
    metadata={"weir.schema_version": "1"},
)
"""One row per decision. `time_ns` (CLOCK_REALTIME) is when the setting had its value; `inference_ns` is how
long the classifier took, which in virtual time is next to nothing."""
_COLUMNS = ("segments_received", "in_flight", "rtt_ns", "bbr_bandwidth_bps", "bbr_min_rtt_ns")


@dataclass(frozen=True)
class _Decision:
    predicted: str
    samples: int
    """That have features."""
    inference_ns: int


def decide(classifier: Classifier, samples: Sequence[tuple[int, TcpInfo]]) -> _Decision | None:
    """The class of a flow by its samples, each with its time in ns; None if none has features.

    As features are differences to the sample before, the first sample has none.
    """
    known = [(at, info) for at, info in samples if info.bbr_bandwidth_bps is not None]
    if len(known) < 2:
        return None
    columns: dict[str, Any] = {"time_ns": np.array([at for at, _ in known], dtype=np.int64)}
    for name in _COLUMNS:
        columns[name] = np.array([getattr(info, name) for _, info in known], dtype=np.float64)
    before = time.perf_counter_ns()
    _, values = feature_values(columns)
    if not len(values):
        return None
    predicted = classifier.classify(values.mean(axis=0, keepdims=True))[0]
    return _Decision(predicted, len(values), time.perf_counter_ns() - before)


class Tuner:
    """The tuner of one host: a thread, from `begin` to `end` of each phase."""

    def __init__(self, hosts: Hosts, host: str, config: TunerConfig, classifier: Classifier) -> None:
        """Read the setting, and try each value. Raises TestbedError for what the kernel does not take."""
        self._hosts, self._host, self._config, self._classifier = hosts, host, config, classifier
        namespace = hosts.host(host).namespace
        path = Path("/proc/sys", *config.sysctl.split("."))
        # `set_sysctls` says what is wrong with a setting that does not exist.
        value = in_network_namespace(namespace, lambda: path.read_text() if path.is_file() else "")
        self._initial = value.strip()
        for value in (*config.values.values(), self._initial):
            self._set(value)
        self._diag = in_network_namespace(namespace, TcpDiag)
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.rows: list[dict[str, Any]] = []
        """As SCHEMA."""

    def begin(self, flows: Iterable[FlowSpec]) -> None:
        """Tune the flow of this phase from now on."""
        self._set(self._initial)
        flow = next(flow for flow in flows if flow.id.rpartition("/")[2] == self._config.flow)
        connection = data_connection(self._hosts, flow)
        self._ending.clear()
        self._thread = threading.Thread(
            target=self._run, args=(flow.id, connection), name=f"tuner-{self._host}", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """End the phase. Raises the error with which tuning failed, if any."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread, and close the socket."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self._diag.close()

    def _set(self, value: str) -> None:
        self._hosts.set_sysctls({self._host: {self._config.sysctl: value}})

    def _run(self, flow: str, connection: Connection) -> None:
        try:
            self._tune(flow, connection)
        except BaseException as error:  # raised again by end()
            self._error = error

    def _tune(self, flow: str, connection: Connection) -> None:
        samples: list[tuple[int, TcpInfo]] = []
        every_s, latency_s = self._config.every / _NS, self._config.latency / _NS
        due = time.monotonic()
        decision, effective = due + every_s, math.inf
        decided: _Decision | None = None
        while not self._ending.wait(max(0.0, min(due, effective) - time.monotonic())):
            if decided is not None and time.monotonic() >= effective:
                self._apply(flow, decided)
                decided, effective = None, math.inf
            if time.monotonic() < due:
                continue
            samples += [(time.time_ns(), info) for info in self._diag.sample([connection])]
            if due >= decision - DEFAULT_INTERVAL_S / 2:
                decided = decide(self._classifier, samples)
                effective = math.inf if decided is None else time.monotonic() + latency_s
                samples = samples[-1:]
                decision += every_s
            due = max(due + DEFAULT_INTERVAL_S, time.monotonic())

    def _apply(self, flow: str, decided: _Decision) -> None:
        value = self._config.values[decided.predicted]
        self._set(value)
        self.rows.append(
            {
                "time_ns": time.time_ns(),
                "host": self._host,
                "flow": flow,
                "samples": decided.samples,
                "sysctl": self._config.sysctl,
                "predicted": decided.predicted,
                "value": value,
                "inference_ns": decided.inference_ns,
            }
        )


class Tuners:
    """The tuners of an experiment's hosts; a context manager."""

    def __init__(self, experiment: ExperimentConfig, hosts: Hosts, run_dir: Path) -> None:
        """Prepare them. Raises ClassifierError, or TestbedError where a kernel lacks a setting."""
        self._path = RunDirectory(run_dir).tuning
        self._tuners = [
            Tuner(hosts, name, host.tuner, classifier_of(host.tuner, run_dir))
            for name, host in experiment.hosts.items()
            if host.tuner is not None
        ]

    def begin(self, flows: Sequence[FlowSpec]) -> None:
        """Tune a phase's flows, which may start now."""
        for tuner in self._tuners:
            tuner.begin(flows)

    def end(self) -> None:
        """End the phase. Raises the error with which tuning failed, if any."""
        for tuner in self._tuners:
            tuner.end()

    def stop(self) -> None:
        """Write the decisions of all tuners, if there are tuners. Raises OSError."""
        if self._tuners:
            rows = sorted(
                (row for tuner in self._tuners for row in tuner.rows), key=lambda row: row["time_ns"]
            )
            with replacing(self._path) as part:
                pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), part, compression="zstd")

    def __enter__(self) -> Self:
        """Nothing happens before `begin`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End threads that still run."""
        for tuner in self._tuners:
            tuner.close()
