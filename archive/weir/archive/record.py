# SPDX-License-Identifier: Apache-2.0
"""Facts of an export that the metadata and the README both state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from weir.archive.contents import Contents, ExportedRun
from weir.rundir.directory import INPUT_FOLDERS

_IPERF = re.compile(rb'"version"\s*:\s*"iperf ([\w.+-]+)')
_KERNEL = re.compile(rb'"system_info"\s*:\s*"(\S+) \S+ (\S+) ')
_HEAD_BYTES = 65_536


@dataclass(frozen=True)
class Member:
    """A file of the archive, as it was written."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Origin:
    """The software that made the archive, and when."""

    weir_version: str
    commit: str | None
    at: datetime


@dataclass(frozen=True)
class License:
    """The terms of the archive: an SPDX identifier, an address or a text; "" if none was given."""

    text: str = ""

    @property
    def address(self) -> str | None:
        """Its address; None for a text."""
        if re.fullmatch(r"https?://\S+", self.text):
            return self.text
        # SPDX identifiers have no spaces; https://spdx.org/licenses/ has a page for each.
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", self.text):
            return f"https://spdx.org/licenses/{self.text}"
        return None

    @property
    def statement(self) -> str:
        """One sentence for people."""
        return self.text or "No license was stated. Ask the authors before you use these data further."


@dataclass(frozen=True)
class Programs:
    """Versions that the logs of a run tell; None where they do not."""

    iperf3: str | None
    kernel: str | None


def programs_of(run: ExportedRun) -> Programs:
    """Read the versions from the log of a flow by iperf3."""
    iperf3 = kernel = None
    for path in sorted((run.source / "logs").glob("flow-*.json")):
        head = _head(path)
        if iperf3 is None and (match := _IPERF.search(head)):
            iperf3 = match[1].decode()
        if kernel is None and (match := _KERNEL.search(head)):
            kernel = f"{match[1].decode(errors='replace')} {match[2].decode(errors='replace')}"
        if iperf3 and kernel:
            break
    return Programs(iperf3, kernel)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def software_of(run: ExportedRun) -> str:
    """The version of weir that made a run, with its commit."""
    commit = run.manifest.commit
    return f"weir {run.manifest.weir_version or '(version unknown)'}" + (
        f", commit {commit}" if commit else ""
    )


def repeat_command(run: ExportedRun) -> str:
    """The command that makes the run again, from the folder of the unpacked archive."""
    return f"weir run {quote(f'{run.folder}/config.yaml')} {_time_options([run])}"


def campaign_commands(contents: Contents, folder: str) -> Iterator[str]:
    """The commands that make all runs of a campaign again, in another folder."""
    runs = [run for run in contents.runs if run.folder.startswith(f"{folder}/")]
    for name in INPUT_FOLDERS:
        if any((run.source / name).is_dir() for run in runs):
            # Where the campaign looks for files that are not at the paths that it names.
            copies = f"{quote(folder)}/{name}"
            yield f"mkdir -p {copies} && cp {quote(folder)}/*_r*/{name}/* {copies}/"
    # Also of NAME-quick-virtual, whose time is not the file's.
    quick = " --quick" if re.search(r"-quick(-real|-virtual)?$", folder) else ""
    command = f"weir campaign {quote(f'{folder}/campaign.yaml')}{quick} --runs again"
    yield f"{command} {_time_options(runs)}   # all runs of the campaign"


def _time_options(runs: Iterable[ExportedRun]) -> str:
    """Options that give runs the same time, and hosts on a testbed, which is the reader's."""
    runs = list(runs)
    if any(run.manifest.testbed is not None for run in runs):
        return "--time real --testbed testbed.yaml"
    virtual = [run.manifest.virtual_time for run in runs if run.manifest.virtual_time is not None]
    if not virtual:
        return "--time real"  # whatever the experiment asks for
    kernels = "".join(
        f" --kernel {quote(name)}" for name in dict.fromkeys(each.kernel.name for each in virtual) if name
    )
    return f"--time virtual{kernels} --memory {max(each.memory_mb for each in virtual)}"


def instant(time_ns: int | None) -> str | None:
    """A time of a manifest as ISO 8601 in UTC."""
    if time_ns is None:
        return None
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).isoformat().replace("+00:00", "Z")
