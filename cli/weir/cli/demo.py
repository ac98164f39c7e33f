# SPDX-License-Identifier: Apache-2.0
"""`weir demo`: `weir run` of the shipped demo."""

from __future__ import annotations

from pathlib import Path

from weir.cli import options
from weir.cli.run import run_command


def demo(
    runs: options.Runs = Path("runs"),
    plain: options.Plain = False,
    as_json: options.AsJson = False,
) -> int:
    """Run the demo: two BBR flows behind one policer, then behind two; every lost packet is explained.

    It takes about a minute and a half. A terminal shows the drops of each policer live. The same as
    `weir run demo`: results go to RUNS/demo/<run-id>/.
    """
    from weir.controlplane.shipped import find_experiment

    return run_command(find_experiment(Path("demo")), runs, plain=plain, as_json=as_json)
