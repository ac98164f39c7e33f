# SPDX-License-Identifier: Apache-2.0
"""Makes runs on many machines, by workers of dask.distributed, each with one run at a time.

The campaign assigns a run to an idle worker whose software is the campaign's. A finished or failed run comes
back as a whole directory. All state is in the campaign's folder, so that a campaign on a cluster is killed
and resumed like one on a single machine. The run of a worker that disconnects has failed.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
import uuid
import zipfile
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.campaign.errors import CampaignError
from weir.campaign.executors import worker
from weir.campaign.executors.executor import BUSY_SHARE, Command, Execution
from weir.campaign.executors.heartbeats import Heartbeats
from weir.campaign.executors.worker import FinishedRun, RunRequest, WorkerInfo
from weir.campaign.identity import identity_of
from weir.campaign.load import PlannedRun
from weir.rundir.directory import RunDirectory
from weir.rundir.manifest import Software

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S = 10.0
WITHOUT_WORKERS_S = 60.0
HEARTBEAT_S = 5.0
_PART_BYTES = 8 << 20
_FILES_OF_A_RUN = 10_000
_BUSY_OVER_S = 0.5

Note = Callable[[str], None]


def connect(address: str) -> Client:
    """A client of the scheduler at `address`; raises CampaignError where there is none."""
    try:
        from distributed import Client
    except ImportError as error:
        raise CampaignError(
            "--scheduler needs dask.distributed; valid: pip install 'weir-policer[cluster]' "
            "here and for workers"
        ) from error
    try:
        return Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise CampaignError(
            f"--scheduler {address}: {error or 'no answer'}; valid: the address that `dask scheduler` prints"
        ) from error


@dataclass(frozen=True)
class GuestNeeds:
    """The kernels and the memory that a worker must have for runs in virtual time."""

    kernels: Mapping[str, str]
    """Digest of a kernel's inputs → name."""
    run_mb: int
    """Memory of a run, its guest's included."""


class ClusterExecutor:
    """The workers of a scheduler."""

    writes_here = False

    def __init__(
        self,
        client: Client,
        made_by: Software,
        *,
        keep_raw: bool,
        note: Note,
        command: Command,
        describe: Callable[[float], WorkerInfo] = worker.describe_worker,
        needs: GuestNeeds | None = None,
    ) -> None:
        """Use workers with software `made_by`, and the kernels and memory of `needs`.

        `note` receives a line for each unusable worker.
        """
        self._client, self._made_by, self._keep_raw, self._needs = client, made_by, keep_raw, needs
        self._note, self._command, self._describe = note, command, describe
        self._usable: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._running: dict[str, _ClusterExecution] = {}
        self._usable_at = time.monotonic()
        self._was_usable = False
        self._refreshed_at = 0.0
        self._heartbeats = Heartbeats(self._send_heartbeat, HEARTBEAT_S)

    @property
    def jobs(self) -> int:
        """Workers that can be used."""
        return max(1, len(self._usable))

    def is_free(self) -> bool:
        """Whether a worker is idle.

        Raises CampaignError after a minute with no usable worker, or at once if all were refused from the
        start; a usable one may have been restarted.
        """
        self._refresh()
        now = time.monotonic()
        if self._usable:
            self._usable_at, self._was_usable = now, True
        elif now - self._usable_at > WITHOUT_WORKERS_S or (self._refused and not self._was_usable):
            why = "; ".join(sorted(set(self._refused.values()))) or "it has no worker"
            raise CampaignError(f"{self._address}: {why}; valid: `dask worker {self._address}` where weir is")
        return any(address not in self._running for address in self._usable)

    @property
    def _address(self) -> str:
        return str(self._client.scheduler_info(n_workers=0)["address"])

    def _refresh(self) -> None:
        """Admit new workers and drop those that have disconnected."""
        present = set(self._client.scheduler_info(n_workers=-1)["workers"])
        for address in present - set(self._usable) - set(self._refused):
            self._admit(address)
        for address in set(self._usable) - present:
            self._note(f"worker {self._usable.pop(address)} disconnected")
            run = self._running.get(address)
            if run is not None:
                run.disconnect()
        self._refused = {address: why for address, why in self._refused.items() if address in present}

    def _admit(self, address: str) -> None:
        (found,) = self._client.run(
            self._describe, _BUSY_OVER_S, workers=[address], on_error="return"
        ).values() or [OSError("disconnected")]
        if isinstance(found, Exception):
            self._refused[address] = f"worker {address}: {found}"
        elif found.software != self._made_by:
            self._refused[address] = (
                f"worker {address} on {found.host} has {found.software}, this is {self._made_by}"
            )
        elif self._needs is not None and (lacking := _lacking(self._needs, found)):
            self._refused[address] = f"worker {address} on {found.host} {lacking}"
        else:
            self._usable[address] = f"{address} on {found.host}"
            if found.busy > BUSY_SHARE and self._needs is None:
                self._note(f"worker {address} on {found.host} is busy: {found.busy:.0%} of its processors")
            return
        self._note(f"{self._refused[address]}; it is not used")

    def start(self, run: PlannedRun, partial: Path) -> Execution:
        """Submit a run to an idle worker."""
        address = next(address for address in self._usable if address not in self._running)
        request = RunRequest(
            token=uuid.uuid4().hex,
            key=run.key,
            config=run.text,
            inputs=dict(run.inputs),
            identity=identity_of(run, self._made_by),
            keep_raw=self._keep_raw,
            command=self._command,
            virtual_time=run.virtual_time,
            testbed=inventory.read_text() if (inventory := RunDirectory(partial).testbed).exists() else None,
        )
        future = self._client.submit(
            worker.make_run, request, workers=[address], allow_other_workers=False, pure=False
        )
        execution = _ClusterExecution(self, address, self._usable[address], request.token, future, partial)
        self._running[address] = execution
        self._heartbeats.begin()
        return execution

    def tick(self) -> None:
        """Notice which workers have disconnected."""
        now = time.monotonic()
        if self._running and now - self._refreshed_at > HEARTBEAT_S:
            self._refreshed_at = now
            self._refresh()

    def _send_heartbeat(self) -> bool:
        """Send one to the workers with runs; returns whether the client is still open."""
        try:
            self.call(list(self._running), worker.heartbeat)
        except (Exception, CancelledError):  # the main thread meets the same error, and ends the campaign
            return bool(self._client.status != "closed")
        return True

    def call(self, addresses: list[str], function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on workers while they make their runs; disconnected workers are left out."""
        present = [address for address in addresses if address in self._usable]
        if present:
            self._client.run(function, *arguments, workers=present, on_error="ignore")

    def fetch(self, address: str, finished: FinishedRun, path: Path) -> None:
        """Copy a packed run from a worker in parts, as it may be larger than memory.

        Raises ValueError if it is larger than the disk, or the worker sends something else than it said.
        """
        free = shutil.disk_usage(path.parent).free
        if finished.size > free:
            raise ValueError(f"its packed run has {finished.size} bytes; {free} are free in {path.parent}")
        with path.open("wb") as file:
            while file.tell() < finished.size:
                found = self._client.run(
                    worker.read_part, finished.path, file.tell(), _PART_BYTES, workers=[address]
                )
                part = found[address]
                if not 0 < len(part) <= min(_PART_BYTES, finished.size - file.tell()):
                    raise ValueError(f"its packed run ends after {file.tell()} bytes of {finished.size}")
                file.write(part)

    def remove(self, address: str) -> None:
        """Forget the run of a worker, which has ended."""
        del self._running[address]
        if not self._running:
            self._heartbeats.end()


def _lacking(needs: GuestNeeds, found: WorkerInfo) -> str:
    """The kernels or the memory that a worker lacks for guests, as text; empty if it has all."""
    missing = [
        f"{name!r} (inputs {digest[:12]})"
        for digest, name in needs.kernels.items()
        if digest not in found.kernels
    ]
    if missing:
        return (
            f"has no kernel {', '.join(missing)}; valid: `weir kernel build` there of the same source and "
            "patches, or a copy of the folder of kernels"
        )
    if found.available_mb < needs.run_mb:
        return f"has {found.available_mb:,} MB of memory available, and a run needs {needs.run_mb:,} MB"
    return ""


def unpack(packed: Path, folder: Path) -> None:
    """Unpack a worker's run. Raises ValueError if it has more files than a run, or more bytes than fit."""
    with zipfile.ZipFile(packed) as archive:
        members = archive.infolist()
        if len(members) > _FILES_OF_A_RUN:
            raise ValueError(f"its run has {len(members)} files; valid: at most {_FILES_OF_A_RUN}")
        size, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
        if size > free:
            raise ValueError(f"its run has {size} bytes unpacked; {free} are free in {folder}")
        archive.extractall(folder)  # reads no more of a member than its size here


class _ClusterExecution:
    def __init__(
        self, executor: ClusterExecutor, address: str, name: str, token: str, future: Future, partial: Path
    ) -> None:
        self._executor, self._address, self._name, self._token = executor, address, name, token
        self._future, self._partial = future, partial
        self._lost = False
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        future.add_done_callback(self._done)

    def is_measuring(self) -> bool:
        """A worker analyses before it takes the next run."""
        return True

    def _done(self, _future: Future | None = None) -> None:
        if self.fd >= 0:
            os.eventfd_write(self.fd, 1)

    def disconnect(self) -> None:
        """Mark the run as lost: its worker has disconnected."""
        self._lost = True
        self._done()

    def finish(self) -> str | None:
        """Copy the run's directory from the worker."""
        fd, self.fd = self.fd, -1
        os.close(fd)
        self._executor.remove(self._address)
        if self._lost:
            self._future.cancel()
            return f"its worker {self._name} disconnected"
        packed = self._partial / ".packed"
        try:
            finished: FinishedRun = self._future.result()
            self._executor.fetch(self._address, finished, packed)
            for path in self._partial.iterdir():
                if path != packed:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            unpack(packed, self._partial)
        except (Exception, CancelledError) as error:  # dask re-raises any exception of the worker here
            return f"worker {self._name}: {type(error).__name__}: {error}"
        finally:
            packed.unlink(missing_ok=True)
            self._executor.call([self._address], worker.remove, self._token)
        return None if finished.error is None else f"worker {self._name}: {finished.error}"

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the run on its worker."""
        self._executor.call([self._address], worker.send_signal, self._token, int(number))
        if number == signal.SIGKILL:
            self._future.cancel()
