# SPDX-License-Identifier: Apache-2.0
"""Opens a page in headless Chromium and returns its DOM and console messages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_S = 120.0
_CONSOLE = re.compile(r":CONSOLE(?:\(\d+\)|:\d+)\] (.*)")


class BrowserError(RuntimeError):
    """Chromium is not installed, or did not finish in time; the text says which."""


@dataclass(frozen=True)
class Opened:
    """A page after its scripts have run."""

    program: str
    dom: str
    console: tuple[str, ...]
    """All messages of the console, with errors and blocked loads."""
    stderr_last_line: str
    """The last line of Chromium's standard error."""


def chromium() -> str | None:
    """The path of Chromium; None where it is not installed."""
    return next((found for name in CHROMIUM if (found := shutil.which(name))), None)


def opened(page: Path) -> Opened:
    """Open a file and wait until its scripts are done; raises BrowserError."""
    program = chromium()
    if program is None:
        raise BrowserError("Chromium is not installed (package chromium)")
    options = ["--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += ["--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--log-level=0"]
    if os.geteuid() == 0:  # its sandbox does not run as root
        options.append("--no-sandbox")
    with TemporaryDirectory(prefix="weir-") as profile:
        options.append(f"--user-data-dir={profile}")
        try:
            done = subprocess.run(
                [program, *options, "--virtual-time-budget=60000", "--dump-dom", page.absolute().as_uri()],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BrowserError(f"{program}: {error}") from error
    said = done.stderr.strip().splitlines()
    console = tuple(found[1] for line in said if (found := _CONSOLE.search(line)))
    return Opened(program, done.stdout, console, said[-1] if said else "")
