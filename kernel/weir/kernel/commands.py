# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of a build: never without an end, and never beyond the end of this process."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from weir.kernel.errors import KernelError

PACKAGES = {
    "gcc": "gcc",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "tar": "tar",
    "xz": "xz-utils",
    "patch": "patch",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
}
"""Program → Debian package."""
_NO_ROOM = os.strerror(errno.ENOSPC)
_COMPILER_ERROR = re.compile(r"^\S.*?:\d+(:\d+)?: (fatal )?error: |: undefined reference to |^cc1: .*error: ")
_MAKE_ERROR = re.compile(r"^make(\[\d+\])?: \*\*\* ")
_DETAILS = re.compile(r"^(make(\[\d+\])?: \*\*\* (\[\S+: )?|\*\*\*\s*)")
# Variables that make, or the kernel's Makefile, would take from the user's shell or from a make around this.
_FOREIGN = re.compile(
    r"(MAKE|MFLAGS|KBUILD_|KCONFIG_|KCFLAGS|KCPPFLAGS|ARCH|SUBARCH|CROSS_COMPILE|LLVM|O$|V$|W$|C$)"
)


def check_tools(programs: Iterable[str]) -> None:
    """Raise KernelError if one of the programs is not installed, or the processor is not of UML's kind."""
    if platform.machine() != "x86_64":
        raise KernelError(f"User-Mode Linux needs an x86-64 processor; this is {platform.machine()}")
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        packages = " ".join(PACKAGES[name] for name in missing)
        verb = "is" if len(missing) == 1 else "are"
        raise KernelError(
            f"{' and '.join(missing)} {verb} not installed; install with: sudo apt-get install {packages}"
        )


def clean_environment() -> dict[str, str]:
    """The environment of a build: without foreign settings of make, and the same kernel on every machine."""
    own = {name: value for name, value in os.environ.items() if not _FOREIGN.match(name)}
    return own | {
        "LC_ALL": "C",
        "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
        "KBUILD_BUILD_USER": "weir",
        "KBUILD_BUILD_HOST": "weir",
        "KBUILD_BUILD_VERSION": "1",
    }


def run_logged(
    argv: Sequence[str], log: Path, on_line: Callable[[str], None] | None = None, *, folder: Path
) -> int:
    """Run a program in `folder` with its output appended to `log`; returns its exit code.

    `on_line` receives each line. The program leads a process group, which is ended with an exception
    (KeyboardInterrupt too) and, with SIGTERM, when this process ends.
    """
    guard = ["setpriv", "--pdeathsig", "TERM", "--"] if shutil.which("setpriv") else []
    with (
        log.open("a") as written,
        subprocess.Popen(
            [*guard, *argv],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                written.write(line)
                if on_line is not None:
                    on_line(line.rstrip("\n"))
            return process.wait()
        except BaseException:
            _end_group(process)
            raise


def _end_group(process: subprocess.Popen[str]) -> None:
    # The group lives as long as one of its processes does, and its leader has not been waited for.
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def reason_of(log: Path) -> str:
    """The reason of a failed build: the first error of compiler or linker in its log, else of make."""
    lines = log.read_text(errors="replace").splitlines()
    for pattern in (_COMPILER_ERROR, _MAKE_ERROR):
        for line in lines:
            if pattern.search(line):
                return _DETAILS.sub("", line).strip()
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


def raise_if_full(log: Path, folder: Path) -> None:
    """Raise OSError (ENOSPC) for `folder` if the log says that a program found no room."""
    if _NO_ROOM in log.read_text(errors="replace"):
        raise OSError(errno.ENOSPC, _NO_ROOM, str(folder))
