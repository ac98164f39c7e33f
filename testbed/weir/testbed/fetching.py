# SPDX-License-Identifier: Apache-2.0
"""Brings a file from a host: compressed there, or a capture reduced to its headers; in pieces, and continued
after a lost connection."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import shutil
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from weir.testbed.control import HostControl
from weir.testbed.errors import ChangeError, CommandError, HostError
from weir.testbed.scripts import module_command
from weir.topo.hosts import Fetched

PATIENCE_S = 120.0
"""A host from which nothing comes for so long after its connection was lost is given up."""
_RETRY_S = 2.0


async def fetch(
    name: str, path: Path, helper: Callable[[], Awaitable[HostControl]], *, headers_only: bool = False
) -> Fetched:
    """Bring the file `name` of the work folder to `path`, and delete it there.

    With `headers_only` it is a capture, and comes without the payload of its packets. `helper` gives the
    host's helper, newly connected if the last one is lost. Raises HostError, and OSError if `path` cannot be
    written.
    """
    packed = path.with_name(f"{path.name}.packed")
    for old in (packed, path):
        old.unlink(missing_ok=True)
    came, give_up = 0, None
    while True:
        host: HostControl | None = None
        try:
            host = await helper()
            if headers_only:
                await _reduce(host, name)
                is_packed, wanted = True, f"{name}.headers"
            else:
                is_packed = await _compressed(host, name)
                wanted = f"{name}.gz" if is_packed else name
            await _bring(host, wanted, packed if is_packed else path)
            break
        except HostError:
            # Without a helper: the last one may still hold the host, until its watchdog has ended it.
            refused = host is not None and not host.is_over
            now, before = time.monotonic(), came
            came = sum(one.stat().st_size for one in (packed, path) if one.exists())
            if give_up is None or came > before:
                give_up = now + PATIENCE_S
            if refused or now >= give_up:
                raise
        await asyncio.sleep(_RETRY_S)
    size = travelled = (packed if is_packed else path).stat().st_size
    if is_packed:
        try:
            with _naming(path):
                size = await asyncio.to_thread(_restore if headers_only else _unpack, packed, path)
        except (gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
            raise CommandError(host.host, f"{name} came damaged: {error}") from error
        packed.unlink()
    await host.ask("delete", prefix=name)
    return Fetched(size, travelled)


async def _compressed(host: HostControl, name: str) -> bool:
    """Compress the file unless that is done; returns whether the host had the space for that."""
    await host.start(f"gzip {name}", ["sh", "-c", 'test ! -e "$0" || gzip -1 -f "$0"', name])
    return (await host.wait(f"gzip {name}")).code == 0


async def _reduce(host: HostControl, name: str) -> None:
    """Reduce a capture to its headers unless that is done."""
    program = f"headers of {name}"
    await host.start(program, module_command("weir.testbed.remote.headers", [name]))
    ended = await host.wait(program)
    if ended.code != 0:
        said = ended.stderr.strip().splitlines() or [f"exit code {ended.code}"]
        raise ChangeError(host.host, f"the headers of its capture were not taken: {said[-1]}")


async def _bring(host: HostControl, name: str, path: Path) -> None:
    """Append what is missing of a file."""
    size = await host.ask("size", name=name)
    with _naming(path), path.open("ab") as file:
        while (offset := file.tell()) < size:
            piece = base64.b64decode(await host.ask("read", name=name, offset=offset))
            if not piece:
                raise ChangeError(host.host, f"{name} became shorter")
            file.write(piece)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in errors of writing it, such as a full disk's, which do not."""
    try:
        yield
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _restore(packed: Path, path: Path) -> int:
    # Imported here: numpy takes time to load, and whole captures need none.
    from weir.testbed.restoring import restore

    return restore(packed, path)


def _unpack(packed: Path, path: Path) -> int:
    with gzip.open(packed, "rb") as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 2**20)
        return target.tell()
