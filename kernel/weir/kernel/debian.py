# SPDX-License-Identifier: Apache-2.0
"""Debian's source of a kernel: installed, kept from an earlier build, or downloaded with apt without root."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weir.kernel.commands import check_tools, raise_if_full, run_logged
from weir.kernel.errors import KernelError, KernelInputError
from weir.rundir.kernel import KernelSource
from weir.rundir.scratch import scratch_folder

DEBIAN_SERIES = "6.12"
PACKAGE = f"linux-source-{DEBIAN_SERIES}"
SOURCES = Path("/usr/src")
"""Where Debian's packages put their tar files."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

# More than half of the source is never part of a User-Mode Linux and is not unpacked. All Kconfig files are.
_UNUSED = (
    "*/arch/[!ux]*/*.[chS]",
    "*/arch/*.dts*",
    "*/drivers/accel/*.[ch]",
    *(f"*/drivers/{name}/*.[ch]" for name in ("clk", "gpu", "iio", "infiniband", "media", "pinctrl", "scsi")),
    *(f"*/drivers/{name}/*.[ch]" for name in ("soc", "staging", "usb", "net/ethernet", "net/wireless")),
    *(f"*/Documentation/*.{ending}" for ending in ("rst", "txt", "yaml", "svg", "json")),
    "*/sound/*.[ch]",
    "*/tools/perf/*.[chs]*",
    "*/tools/testing/*.[chs]*",
)
_OTHER = "another source is given with --source DIR"
_DOWNLOAD = "download-"
_SUITE = re.compile(r"[a-z][a-z0-9.-]*")
# A line of `apt-cache madison`: package | version | archive suite/component … Packages
_OFFERED = re.compile(r"^ *linux-source-(\d+)\.(\d+) +\| +(\S+) +\|", re.MULTILINE)


@dataclass(frozen=True)
class DebianSource:
    """The tar file of Debian's package."""

    tar_file: Path
    record: KernelSource
    name: str = DEBIAN_SERIES

    def unpack(self, folder: Path, log: Path, *, whole: bool) -> None:
        """Unpack it: all of it for patches of the user's, which may touch any file."""
        check_tools(["tar", "xz"])
        left_out = [] if whole else [f"--exclude={pattern}" for pattern in _UNUSED]
        command = ["tar", "--extract", "--xz", f"--file={self.tar_file}", "--strip-components=1", *left_out]
        if run_logged(command, log, folder=folder) != 0:
            raise_if_full(log, folder)
            raise KernelError(f"{self.tar_file} cannot be unpacked: {_last_line(log.read_text())}")


def debian_source(folder: Path) -> DebianSource:
    """Linux 6.12: as installed, else from `folder`, into which it is downloaded if it is not there.

    Raises KernelError.
    """
    installed = SOURCES / f"{PACKAGE}.tar.xz"
    if installed.is_file():
        return _debian_source(installed, PACKAGE, _installed_version())
    kept = sorted(folder.glob(f"{PACKAGE}_*.tar.xz"), key=lambda path: path.stat().st_mtime)
    if kept:
        tar_file = kept[-1]
    else:
        _check_apt(PACKAGE)
        with scratch_folder(folder, _DOWNLOAD) as where:
            tar_file = _download(PACKAGE, folder, where)
    return _debian_source(
        tar_file, PACKAGE, tar_file.name.removeprefix(f"{PACKAGE}_").removesuffix(".tar.xz")
    )


def suite_source(folder: Path, suite: str) -> DebianSource:
    """The newest Linux of another release of Debian, such as trixie-backports, kept in `folder`.

    The package comes from the archive that this machine's apt uses, and is checked with Debian's keys. apt's
    own settings and lists stay as they are. Raises KernelInputError for a suite that is none, KernelError.
    """
    if not _SUITE.fullmatch(suite):
        raise KernelInputError(f"{suite!r} is no suite of Debian; valid: such as trixie-backports or sid")
    _check_apt(f"linux-source of {suite}")
    if not KEYRING.is_file():
        raise KernelError(
            f"{KEYRING} with Debian's keys is missing; "
            "install with: sudo apt-get install debian-archive-keyring"
        )
    with scratch_folder(folder, _DOWNLOAD) as where:
        log = where / "log"
        options = _apt_of(suite, where)
        if run_logged(
            ["apt-get", "update", "-o", "APT::Update::Error-Mode=any", *options], log, folder=where
        ):
            raise_if_full(log, folder)
            raise KernelError(f"apt-get cannot read suite {suite!r}: {_last_line(log.read_text())}; {_OTHER}")
        package, version = _newest(suite, options)
        tar_file = folder / f"{package}_{version}.tar.xz"
        if not tar_file.is_file():
            tar_file = _download(package, folder, where, options)
    return _debian_source(tar_file, package, version)


def _apt_of(suite: str, folder: Path) -> list[str]:
    """Options of apt for this suite alone, with its files in `folder`."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    sources = folder / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {_archive()} {suite} main\n")
    settings = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _archive() -> str:
    """The address of Debian's archive that apt uses here. Raises KernelError."""
    command = ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        label, _, address = line.partition(" ")
        if label == "Debian":  # that of security updates is Debian-Security
            return address
    raise KernelError(
        f"apt here knows no archive of Debian; if its lists are missing: sudo apt-get update; {_OTHER}"
    )


def _newest(suite: str, options: Sequence[str]) -> tuple[str, str]:
    """The package of the newest series that the suite has, and its version. Raises KernelError."""
    names = subprocess.run(
        ["apt-cache", *options, "pkgnames", "linux-source-"], capture_output=True, text=True, check=False
    ).stdout.split()
    shown = subprocess.run(
        ["apt-cache", *options, "madison", *names], capture_output=True, text=True, check=False
    ).stdout
    # Versions of one package are listed from the newest on.
    offered: dict[tuple[int, int], str] = {}
    for major, minor, version in _OFFERED.findall(shown) if names else ():
        offered.setdefault((int(major), int(minor)), version)
    if not offered:
        raise KernelError(f"suite {suite!r} has no package linux-source-N.N; {_OTHER}")
    (major, minor), version = max(offered.items())
    return f"linux-source-{major}.{minor}", version


def _debian_source(tar_file: Path, package: str, version: str) -> DebianSource:
    with tar_file.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    record = KernelSource(kind="debian", origin=f"{package} {version}".strip(), sha256=digest)
    return DebianSource(tar_file, record, package.removeprefix("linux-source-"))


def _installed_version() -> str:
    try:
        command = ["dpkg-query", "--show", "--showformat=${Version}", PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _check_apt(package: str) -> None:
    try:
        check_tools(["apt-get", "dpkg-deb"])
    except KernelError as error:
        raise KernelError(
            f"{package} is a package of Debian, which this is not ({error}); {_OTHER}"
        ) from None


def _download(package: str, folder: Path, where: Path, options: Sequence[str] = ()) -> Path:
    """Download a package into `where`, which no root is needed for; returns its tar file, in `folder`."""
    log = where / "log"
    # As root, apt downloads as another user, who has to be able to write there.
    command = ["apt-get", "download", "-o", "APT::Sandbox::User=root", *options, package]
    if run_logged(command, log, folder=where) != 0:
        raise_if_full(log, folder)
        raise KernelError(
            f"apt-get cannot download {package}: {_last_line(log.read_text())}; "
            f"if its lists are old: sudo apt-get update; {_OTHER}"
        )
    file = next(where.glob(f"{package}_*.deb"))
    if run_logged(["dpkg-deb", "--extract", file.name, "."], log, folder=where) != 0:
        raise_if_full(log, folder)
        raise KernelError(f"{file.name} cannot be unpacked: {_last_line(log.read_text())}")
    version = file.name.split("_")[1].replace("%3a", ":")
    unpacked = where / "usr" / "src" / f"{package}.tar.xz"
    return unpacked.rename(folder / f"{package}_{version}.tar.xz")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E: ")]
    return (errors or lines or ["it printed nothing"])[-1].removeprefix("E: ")
