# SPDX-License-Identifier: Apache-2.0
"""For tests of the runner: a stand-in for a run's process, which writes a run directory in steps.

`python testing.py RUN_DIR` needs nothing but the standard library. The directory's manifest decides what it
does: a seed named in the environment variable FAIL_SEEDS fails, as often as FAIL_TIMES says.
"""

import fcntl
import json
import os
import sys
import time
from pathlib import Path

STEPS = 4
STEP_S = 0.006
RESULT = {"complete": True, "invalid_reasons": [], "flows": [], "other_flows": [], "pairs": []}


def main() -> int:
    """Do the steps of a run."""
    run_dir = Path(sys.argv[1])
    handle = os.open(run_dir, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    manifest = json.loads((run_dir / "manifest.json").read_text())
    if str(manifest["seed"]) in os.environ.get("FAIL_SEEDS", "").split(","):
        failed = run_dir.parent.parent / "failed"
        if len(list(failed.glob(f"{manifest['run_id']}.*"))) < int(os.environ.get("FAIL_TIMES", "1000")):
            print("cannot do this one")
            return 1
    (run_dir / "pcap").mkdir()
    for step in range(STEPS):
        with (run_dir / "pcap" / f"{step}").open("w") as file:
            file.write("first half ")
            file.flush()
            time.sleep(STEP_S)  # the work of a run
            file.write("second half")
    (run_dir / "result.json").write_text(json.dumps(RESULT))
    manifest |= {"state": "complete", "complete": True, "scheduling": {"p99_s": 0.0001}}
    (run_dir / "manifest.json").write_text(json.dumps(manifest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
