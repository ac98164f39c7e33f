# SPDX-License-Identifier: Apache-2.0
"""Opens a page in headless Chromium: what it became, and what its scripts complained about."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_S = 120.0
_CONSOLE = re.compile(r":CONSOLE(?:\(\d+\)|:\d+)\] (.*)")


class BrowserError(RuntimeError):
    """Chromium is not there or did not end; the text says which."""


@dataclass(frozen=True)
class Opened:
    """A page after its scripts ran."""

    program: str
    dom: str
    console: tuple[str, ...]
    """Everything that the console shows, errors and refusals among it."""
    last_words: str
    """The last line of what Chromium said besides."""


def chromium() -> str | None:
    """Where it is; None where it is not installed."""
    return next((found for name in CHROMIUM if (found := shutil.which(name))), None)


def opened(page: Path) -> Opened:
    """Open a file and wait until its scripts are done; raises BrowserError."""
    program = chromium()
    if program is None:
        raise BrowserError("Chromium is not installed (package chromium)")
    options = ["--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    options += ["--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--log-level=0"]
    if os.geteuid() == 0:  # its own sandbox refuses to work for root
        options.append("--no-sandbox")
    with TemporaryDirectory(prefix="weir-") as profile:
        options.append(f"--user-data-dir={profile}")
        try:
            done = subprocess.run(
                [program, *options, "--virtual-time-budget=60000", "--dump-dom", page.absolute().as_uri()],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BrowserError(f"{program}: {error}") from error
    said = done.stderr.strip().splitlines()
    console = tuple(found[1] for line in said if (found := _CONSOLE.search(line)))
    return Opened(program, done.stdout, console, said[-1] if said else "")
