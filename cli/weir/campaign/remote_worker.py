# SPDX-License-Identifier: Apache-2.0
"""What a dask worker does for a campaign: one run at a time, in a folder of its own, packed for the way back.

`make_run` is the worker's task. All others are called beside it, on the worker's event loop, and return at
once. A worker that hears nothing of its campaign for a while ends the run: nobody waits for it any more.
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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.campaign.hands import Command, start_process, why_failed
from weir.campaign.identity import Software, software
from weir.campaign.store import remove_raw
from weir.cli.files import CONFIG_NAME, write_whole
from weir.cli.manifest import ManifestFile
from weir.cli.replays import Replays, keep_replays
from weir.controlplane.config import parse_experiment
from weir.topo.processors import busy_share

SILENCE_S = 60.0
_GRACE_S = 30.0
_POLL_S = 0.1

_one_at_a_time = threading.Lock()
_heard_at = 0.0
_folders: dict[str, Path] = {}
_processes: dict[str, subprocess.Popen[bytes]] = {}
_packed_at: dict[str, float] = {}
_told: set[str] = set()


@dataclass(frozen=True)
class Order:
    """A run to make. `token` is its name here, of this attempt alone."""

    token: str
    key: str
    config: str
    replays: Replays
    identity: Mapping[str, Any]
    keep_raw: bool
    command: Command


@dataclass(frozen=True)
class Made:
    """What became of a run: why it failed, or None, and its whole directory, packed in a file here."""

    error: str | None
    path: str
    size: int


@dataclass(frozen=True)
class Introduction:
    """Who a worker is: its machine, its software, and how busy its processors are with other things."""

    host: str
    software: Software
    busy: float


def introduce(busy_over_s: float) -> Introduction:
    """Say who this worker is; takes `busy_over_s` seconds. Raises ToolMissingError."""
    return Introduction(socket.gethostname(), software(), busy_share(busy_over_s))


def make_run(order: Order) -> Made:
    """Make a run and pack its directory."""
    # Imported here: the campaign reads this module before it knows whether there is such a library.
    from distributed import get_worker

    hear()
    with _one_at_a_time:
        if order.token in _told:
            raise RuntimeError("told to stop before it began")
        # Of campaigns that were killed before they fetched them.
        for token, packed_at in list(_packed_at.items()):
            if time.monotonic() - packed_at > SILENCE_S:
                forget(token)
        # The worker's own folder is removed when it ends, or by the next one when it was killed.
        folder = Path(tempfile.mkdtemp(prefix="weir-run-", dir=get_worker().local_directory))
        _folders[order.token] = folder
        run_dir = folder / order.key
        run_dir.mkdir()
        write_whole(run_dir / CONFIG_NAME, order.config.encode())
        keep_replays(run_dir, order.replays)
        ManifestFile.create(run_dir, order.key, parse_experiment(order.config, CONFIG_NAME), order.identity)
        process = start_process(order.command(run_dir), run_dir)
        _processes[order.token] = process
        if order.token in _told:
            process.send_signal(signal.SIGTERM)
        code = _wait(process)
        del _processes[order.token]
        if time.monotonic() - _heard_at > SILENCE_S:
            forget(order.token)
            raise RuntimeError(f"the campaign was silent for {SILENCE_S:g} s")
    error = why_failed(code, run_dir)
    if error is not None or not order.keep_raw:
        remove_raw(run_dir)
    packed = folder / "run.zip"
    # No tar: that unpacking keeps within its folder came to Python's with 3.11.4.
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in run_dir.rglob("*"):
            archive.write(path, path.relative_to(run_dir))
    _packed_at[order.token] = time.monotonic()
    return Made(error, str(packed), packed.stat().st_size)


def _wait(process: subprocess.Popen[bytes]) -> int:
    give_up: float | None = None
    while True:
        try:
            return process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        if give_up is None and now - _heard_at > SILENCE_S:
            process.terminate()
            give_up = now + _GRACE_S
        elif give_up is not None and now > give_up:
            process.kill()


def hear() -> None:
    """The campaign is still there."""
    global _heard_at
    _heard_at = time.monotonic()


def tell(token: str, number: int) -> None:
    """Send a signal to a run, or see to it that it does not begin."""
    _told.add(token)
    process = _processes.get(token)
    if process is not None:
        process.send_signal(number)


def read_part(path: str, offset: int, size: int) -> bytes:
    """Some of a packed run."""
    with Path(path).open("rb") as file:
        file.seek(offset)
        return file.read(size)


def forget(token: str) -> None:
    """Remove what a run has left here."""
    folder = _folders.pop(token, None)
    _packed_at.pop(token, None)
    _told.discard(token)
    if folder is not None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
