# SPDX-License-Identifier: Apache-2.0
"""Options of iperf3 that runs use and an old iperf3 lacks.

Runs on the host with Python 3.9 and its standard library.
"""

from __future__ import annotations

OPTIONS = ("--cport", "--connect-timeout", "--forceflush")
"""iperf 3.1 of older distributions lacks some."""


def lacking_options(usage: str) -> list[str]:
    """Those of `OPTIONS` that a text of `iperf3 --help` does not have; none for a text without `--client`."""
    return [option for option in OPTIONS if option not in usage] if "--client" in usage else []
