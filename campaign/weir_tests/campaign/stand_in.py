# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a run's process in tests of the runner: writes a run directory in steps.

`python stand_in.py RUN_DIR PARENT` needs only the standard library. It fails if the manifest's seed is in the
environment variable FAIL_SEEDS, at most FAIL_TIMES times per run. It says FAIL_TEXT.
"""

import fcntl
import json
import os
import sys
import time
from pathlib import Path

# dask workers import this module by name to find the functions that they call.
if __name__ != "__main__":
    from weir.campaign.executors import worker
    from weir.campaign.executors.cluster import ClusterExecutor, connect
    from weir.campaign.executors.worker import WorkerInfo
    from weir.campaign.load import PlannedRun, parse_campaign
    from weir.campaign.runner import Runner
    from weir.campaign.store import Store
    from weir.rundir.manifest import Software
    from weir_tests.kernel.made_up_kernels import digest_of

    SOFTWARE = Software(weir_version="0", commit="commit", programs={"weir-switch": "digest"})

    def stand_in(run_dir: Path) -> list[str]:
        """The command of a stand-in."""
        return [sys.executable, "-S", "-E", __file__, str(run_dir), str(os.getpid())]

    def describe_alike(_busy_over_s: float) -> WorkerInfo:
        """A worker with the campaign's software."""
        return WorkerInfo("here", SOFTWARE, 0.0)

    def describe_with_kernel(_busy_over_s: float) -> WorkerInfo:
        """A worker with the campaign's software, one kernel and little memory."""
        return WorkerInfo("here", SOFTWARE, 0.9, kernels=(digest_of("6.12"),), available_mb=1000)

    def describe_other(_busy_over_s: float) -> WorkerInfo:
        """A worker with another version."""
        return WorkerInfo("there", Software(weir_version="0", commit="later", programs={}), 0.0)

    class Unwatched:
        """A watcher that ignores all events."""

        def run_started(self, run: PlannedRun) -> None:
            """Ignored."""

        def run_finished(self, run: PlannedRun, path: Path, wall_s: float) -> None:
            """Ignored."""

        def run_failed(self, run: PlannedRun, path: Path, error: str, again: bool) -> None:
            """Ignored."""

        def stopping(self) -> None:
            """Ignored."""

        def tick(self) -> None:
            """Ignored."""

    def campaign_of_workers(address: str, runs: Path, text: str) -> None:
        """Run a campaign on the workers of a scheduler; the target of a separate process."""
        with connect(address) as client, Store(parse_campaign(text), runs, lambda: SOFTWARE) as store:
            executor = ClusterExecutor(
                client,
                SOFTWARE,
                keep_raw=True,
                note=lambda _text: None,
                command=stand_in,
                describe=describe_alike,
            )
            Runner(store, executor, Unwatched()).run()

    def folders_left() -> int:
        """Number of run directories still on this worker."""
        return len(worker._folders)

    def set_environment(name: str, value: str) -> None:
        """Set an environment variable of a worker."""
        os.environ[name] = value


STEPS = 4
STEP_S = 0.006
RESULT = {"complete": True, "invalid_reasons": [], "flows": [], "other_flows": [], "pairs": []}


def main() -> int:
    """Write the files of a run, in steps."""
    run_dir = Path(sys.argv[1])
    handle = os.open(run_dir, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    # As a real run: its campaign was killed before the lock, and the directory may be the next campaign's.
    if os.getppid() != int(sys.argv[2]):
        return 1
    manifest = json.loads((run_dir / "manifest.json").read_text())
    if str(manifest["seed"]) in os.environ.get("FAIL_SEEDS", "").split(","):
        failed = run_dir.parent.parent / "failed"
        if len(list(failed.glob(f"{manifest['run_id']}.*"))) < int(os.environ.get("FAIL_TIMES", "1000")):
            print(os.environ.get("FAIL_TEXT", "cannot do this one"))
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
    (run_dir / "manifest.json.spare").unlink()  # as at the end of a real run
    return 0


if __name__ == "__main__":
    sys.exit(main())
