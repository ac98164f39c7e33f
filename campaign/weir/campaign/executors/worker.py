# SPDX-License-Identifier: Apache-2.0
"""The part of a campaign that runs in a dask worker: one run at a time, packed into a file for the campaign.

`make_run` is the worker's task. All other functions are called while it runs, on the worker's event loop, and
return at once. A worker without a heartbeat of its campaign for `SILENCE_S` ends the run.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from weir.campaign.executors.executor import Command, start_process, why_failed
from weir.campaign.identity import software
from weir.campaign.store import remove_raw
from weir.controlplane.config import parse_experiment
from weir.kernel.errors import KernelInputError
from weir.kernel.store import KernelStore, kernels_folder
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import CampaignRun, Software, VirtualTime
from weir.runner.inputs import Inputs
from weir.runner.prepare import OnTestbed, prepare
from weir.topo.memory import available_mb
from weir.topo.processors import busy_share

SILENCE_S = 60.0
_GRACE_S = 30.0
_POLL_S = 0.1

_one_at_a_time = threading.Lock()
_heartbeat_at = 0.0
_folders: dict[str, Path] = {}
_processes: dict[str, subprocess.Popen[bytes]] = {}
_packed_at: dict[str, float] = {}
_signalled: set[str] = set()


@dataclass(frozen=True)
class RunRequest:
    """A run to make; `token` identifies this attempt on the worker."""

    token: str
    key: str
    config: str
    inputs: Inputs
    identity: CampaignRun
    keep_raw: bool
    command: Command
    virtual_time: VirtualTime | None = None
    testbed: str | None = None
    """The text of the testbed's file, whose identity files are the worker's."""


@dataclass(frozen=True)
class FinishedRun:
    """Why a run failed, or None, and the file on the worker that holds its packed directory."""

    error: str | None
    path: str
    size: int


@dataclass(frozen=True)
class WorkerInfo:
    """A worker's machine, its software, and the share of its processors' time in other use."""

    host: str
    software: Software
    busy: float
    kernels: tuple[str, ...] = ()
    """Digests of the inputs of its kernels for virtual time."""
    available_mb: int = 0


def describe_worker(busy_over_s: float) -> WorkerInfo:
    """This worker; measures the processors for `busy_over_s` seconds. Raises ToolMissingError."""
    kernels: tuple[str, ...] = ()
    with contextlib.suppress(KernelInputError):  # a user without a home has no kernels
        kernels = tuple(stored.record.inputs_sha256 for stored in KernelStore(kernels_folder()).kernels())
    return WorkerInfo(socket.gethostname(), software(), busy_share(busy_over_s), kernels, available_mb())


def make_run(request: RunRequest) -> FinishedRun:
    """Make a run and pack its directory."""
    # Imported here: a campaign without a cluster imports this module too, and may lack the library.
    from distributed import get_worker

    heartbeat()
    with _one_at_a_time:
        if request.token in _signalled:
            raise RuntimeError("stopped before it started")
        # Delete packed runs that a killed campaign has not fetched.
        for token, packed_at in list(_packed_at.items()):
            if time.monotonic() - packed_at > SILENCE_S:
                remove(token)
        # dask removes the worker's local directory at exit; after a kill, the next worker does.
        folder = Path(tempfile.mkdtemp(prefix="weir-run-", dir=get_worker().local_directory))
        _folders[request.token] = folder
        run_dir = folder / request.key
        run_dir.mkdir()
        experiment = parse_experiment(request.config, RunDirectory(run_dir).config.name)
        testbed = None if request.testbed is None else OnTestbed.parse(request.testbed)
        prepare(
            run_dir,
            experiment if testbed is None else testbed.use(experiment),
            request.config.encode(),
            request.inputs,
            campaign=request.identity,
            virtual_time=request.virtual_time,
            testbed=testbed,
            keep_raw=request.keep_raw,
        )
        process = start_process(request.command(run_dir), run_dir)
        _processes[request.token] = process
        if request.token in _signalled:
            process.send_signal(signal.SIGTERM)
        code = _wait(process)
        del _processes[request.token]
        if time.monotonic() - _heartbeat_at > SILENCE_S:
            remove(request.token)
            raise RuntimeError(f"no heartbeat from the campaign for {SILENCE_S:g} s")
    error = why_failed(code, run_dir)
    if error is not None or not request.keep_raw:
        remove_raw(run_dir)
    packed = folder / "run.zip"
    # Not tar: Python's extraction filter, which keeps files within the folder, came with 3.11.4.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in run_dir.rglob("*"):
            archive.write(path, path.relative_to(run_dir))
    _packed_at[request.token] = time.monotonic()
    return FinishedRun(error, str(packed), packed.stat().st_size)


def _wait(process: subprocess.Popen[bytes]) -> int:
    give_up: float | None = None
    while True:
        try:
            return process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        if give_up is None and now - _heartbeat_at > SILENCE_S:
            process.terminate()
            give_up = now + _GRACE_S
        elif give_up is not None and now > give_up:
            process.kill()


def heartbeat() -> None:
    """Record that the campaign is still running."""
    global _heartbeat_at
    _heartbeat_at = time.monotonic()


def send_signal(token: str, number: int) -> None:
    """Send a signal to a run; a run that has not started yet will not start."""
    _signalled.add(token)
    process = _processes.get(token)
    if process is not None:
        process.send_signal(number)


def read_part(path: str, offset: int, size: int) -> bytes:
    """Bytes of a packed run."""
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read(size)


def remove(token: str) -> None:
    """Remove a run's files from the worker."""
    folder = _folders.pop(token, None)
    _packed_at.pop(token, None)
    _signalled.discard(token)
    if folder is not None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
