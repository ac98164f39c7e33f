# SPDX-License-Identifier: Apache-2.0
"""One run of a campaign, a process of its own: `python -m weir.campaign.one_run RUN_DIR PARENT_PID`.

The directory has the run's config and manifest already. The process dies with the campaign that started it,
by whatever means that ends; the sandbox then ends too, and holds a lock on the directory until it has.
The descriptor that the environment may name is closed when the traffic is over, so that the next run can
begin; the analysis then takes only time that others leave.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from weir.campaign.hands import MEASURING_VARIABLE
from weir.cli.errors import report_error
from weir.cli.files import hold
from weir.cli.run import analyse_run, run_prepared
from weir.topo.linux import die_with_parent, take_spare_time_only


def main() -> int:
    """Run and analyse; returns the exit code of `weir run`."""
    run_dir, parent = Path(sys.argv[1]), int(sys.argv[2])
    measuring = os.environ.pop(MEASURING_VARIABLE, None)
    hold(run_dir)
    die_with_parent(parent)
    try:
        code = run_prepared(run_dir)
        if code != 0:
            return code
        if measuring is not None:
            take_spare_time_only()
            os.close(int(measuring))
        return analyse_run(run_dir)
    except Exception as error:
        return report_error(error)


if __name__ == "__main__":
    sys.exit(main())
