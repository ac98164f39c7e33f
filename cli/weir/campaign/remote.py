# SPDX-License-Identifier: Apache-2.0
"""A campaign's runs on many machines: workers of dask.distributed, each with one run at a time.

The campaign decides where a run goes: to a worker that has none and whose software is the campaign's. A run
comes back as a whole directory, failed ones with their logs; what counts is here, in the campaign's folder,
so that it can be killed and resumed as one of a single machine. A worker that goes away fails its run.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
import uuid
import zipfile
from asyncio import CancelledError
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir.campaign import remote_worker
from weir.campaign.hands import BUSY_SHARE, Command, Work, one_run
from weir.campaign.identity import Software, identity_of
from weir.campaign.load import PlannedRun
from weir.campaign.remote_worker import Introduction, Made, Order
from weir.cli.errors import InputError

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_S = 10.0
WITHOUT_WORKERS_S = 60.0
HEARTBEAT_S = 5.0
_PART_BYTES = 8 << 20
_BUSY_OVER_S = 0.5

Note = Callable[[str], None]


def connect(address: str) -> Client:
    """A client of the scheduler at `address`; raises InputError where there is none."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            "--scheduler needs dask.distributed; valid: pip install 'weir[cluster]', here and for workers"
        ) from error
    try:
        return Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"--scheduler {address}: {error or 'no answer'}; valid: what `dask scheduler` says it is at"
        ) from error


class RemoteHands:
    """The workers of a scheduler."""

    def __init__(
        self,
        client: Client,
        made_by: Software,
        *,
        keep_raw: bool,
        note: Note,
        command: Command = one_run,
        introduce: Callable[[float], Introduction] = remote_worker.introduce,
    ) -> None:
        """Make runs of software `made_by` with these workers; `note` is told which cannot be used."""
        self._client, self._made_by, self._keep_raw = client, made_by, keep_raw
        self._note, self._command, self._introduce = note, command, introduce
        self._usable: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._at_work: dict[str, _RemoteWork] = {}
        self._seen_at = time.monotonic()
        self._heartbeat_at = 0.0

    @property
    def jobs(self) -> int:
        """Workers that can be used."""
        return max(1, len(self._usable))

    def free(self) -> bool:
        """Whether a worker has nothing to do. Raises InputError when there has been none for a minute."""
        self._look()
        now = time.monotonic()
        if self._usable:
            self._seen_at = now
        elif now - self._seen_at > WITHOUT_WORKERS_S or self._refused:
            why = "; ".join(sorted(set(self._refused.values()))) or "it has no worker"
            raise InputError(f"{self._address}: {why}; valid: `dask worker {self._address}` where weir is")
        return any(address not in self._at_work for address in self._usable)

    @property
    def _address(self) -> str:
        return str(self._client.scheduler_info(n_workers=0)["address"])

    def _look(self) -> None:
        """Learn which workers have come and gone."""
        present = set(self._client.scheduler_info(n_workers=-1)["workers"])
        for address in present - set(self._usable) - set(self._refused):
            self._meet(address)
        for address in set(self._usable) - present:
            self._note(f"worker {self._usable.pop(address)} has gone")
            work = self._at_work.get(address)
            if work is not None:
                work.lose()
        self._refused = {address: why for address, why in self._refused.items() if address in present}

    def _meet(self, address: str) -> None:
        (found,) = self._client.run(
            self._introduce, _BUSY_OVER_S, workers=[address], on_error="return"
        ).values() or [OSError("it went away")]
        if isinstance(found, Exception):
            self._refused[address] = f"worker {address}: {found}"
        elif found.software != self._made_by:
            self._refused[address] = (
                f"worker {address} on {found.host} has {found.software}, this is {self._made_by}"
            )
        else:
            self._usable[address] = f"{address} on {found.host}"
            if found.busy > BUSY_SHARE:
                self._note(f"worker {address} on {found.host} is busy: {found.busy:.0%} of its processors")
            return
        self._note(f"{self._refused[address]}; it is not used")

    def start(self, run: PlannedRun, partial: Path) -> Work:
        """Give a run to a worker that has none."""
        address = next(address for address in self._usable if address not in self._at_work)
        order = Order(
            token=uuid.uuid4().hex,
            key=run.key,
            config=run.text,
            replays=dict(run.replays),
            identity=identity_of(run, self._made_by),
            keep_raw=self._keep_raw,
            command=self._command,
        )
        future = self._client.submit(
            remote_worker.make_run, order, workers=[address], allow_other_workers=False, pure=False
        )
        work = _RemoteWork(self, address, self._usable[address], order.token, future, partial)
        self._at_work[address] = work
        return work

    def tick(self) -> None:
        """Tell workers that the campaign is there, and see which have gone."""
        now = time.monotonic()
        if self._at_work and now - self._heartbeat_at > HEARTBEAT_S:
            self._heartbeat_at = now
            self._look()
            self.ask(list(self._at_work), remote_worker.hear)

    def ask(self, addresses: list[str], function: Callable[..., Any], *arguments: Any) -> None:
        """Have workers do something beside their runs, at once; those that have gone do not."""
        present = [address for address in addresses if address in self._usable]
        if present:
            self._client.run(function, *arguments, workers=present, on_error="ignore")

    def fetch(self, address: str, made: Made, path: Path) -> None:
        """Bring a packed run here, in parts: it may be larger than the memory."""
        with path.open("wb") as file:
            while file.tell() < made.size:
                found = self._client.run(
                    remote_worker.read_part, made.path, file.tell(), _PART_BYTES, workers=[address]
                )
                file.write(found[address])

    def ended(self, address: str) -> None:
        """A worker's run has ended."""
        del self._at_work[address]


class _RemoteWork:
    def __init__(
        self, hands: RemoteHands, address: str, name: str, token: str, future: Future, partial: Path
    ) -> None:
        self._hands, self._address, self._name, self._token = hands, address, name, token
        self._future, self._partial = future, partial
        self._lost = False
        self.fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        future.add_done_callback(self._done)

    def _done(self, _future: Future | None = None) -> None:
        if self.fd >= 0:
            os.eventfd_write(self.fd, 1)

    def lose(self) -> None:
        """Its worker has gone, and nobody else can say what became of it."""
        self._lost = True
        self._done()

    def end(self) -> str | None:
        """Bring the run here."""
        fd, self.fd = self.fd, -1
        os.close(fd)
        self._hands.ended(self._address)
        if self._lost:
            self._future.cancel()
            return f"its worker {self._name} went away"
        packed = self._partial / ".packed"
        try:
            made: Made = self._future.result()
            self._hands.fetch(self._address, made, packed)
            for path in self._partial.iterdir():
                if path != packed:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            with zipfile.ZipFile(packed) as archive:
                archive.extractall(self._partial)
        except (Exception, CancelledError) as error:  # whatever a worker raises comes back as it is
            return f"worker {self._name}: {type(error).__name__}: {error}"
        finally:
            packed.unlink(missing_ok=True)
            self._hands.ask([self._address], remote_worker.forget, self._token)
        return None if made.error is None else f"worker {self._name}: {made.error}"

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the run, where it is."""
        self._hands.ask([self._address], remote_worker.tell, self._token, int(number))
        if number == signal.SIGKILL:
            self._future.cancel()
