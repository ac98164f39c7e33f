# SPDX-License-Identifier: Apache-2.0
"""One run of a campaign, as a process of its own: `python -m weir.campaign.one_run RUN_DIR PARENT_PID`.

The directory has the run's config and manifest already. The process dies with the campaign that started it,
by whatever means that ends; the sandbox then ends too, and holds a lock on the directory until it has.
"""

from __future__ import annotations

import sys
from pathlib import Path

from weir.cli.errors import report_error
from weir.cli.files import hold
from weir.cli.run import run_and_analyse
from weir.topo.linux import die_with_parent


def main() -> int:
    """Run and analyse; returns the exit code of `weir run`."""
    run_dir, parent = Path(sys.argv[1]), int(sys.argv[2])
    hold(run_dir)
    die_with_parent(parent)
    try:
        return run_and_analyse(run_dir)
    except Exception as error:
        return report_error(error)


if __name__ == "__main__":
    sys.exit(main())
