# SPDX-License-Identifier: Apache-2.0
"""The captures of real policers that some tests read where they are present; README.md names the data set."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("WEIR_TRACES") or Path(__file__).parents[4] / "shared" / "traces")
MISSING = (
    "captures: WEIR_TRACES names no folder with them; they are published in data/validation of "
    "https://github.com/USC-NSL/policing-detection"
)
"""The reason of a test that is skipped without them."""


def real_captures(pattern: str = "*.pcap.xz") -> list[Path]:
    """The captures whose names match a glob pattern; none where there are none."""
    return sorted(FOLDER.glob(pattern))
