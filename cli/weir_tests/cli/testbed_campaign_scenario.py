# SPDX-License-Identifier: Apache-2.0
"""Run by `testbed_campaign_test.py` in a sandbox: `weir campaign` on two testbeds at once.

    testbed 1: client1, server1, sink1 ══ weir-switch at 127.0.0.1:9601
    testbed 2: client2, server2, sink2 ══ weir-switch at 127.0.0.1:9602

Usage in the sandbox: `python -m weir_tests.cli.testbed_campaign_scenario FOLDER`. Writes FOLDER/result.json.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from weir.rundir.manifest import read_manifest
from weir.topo.linux import NETNS_FOLDER
from weir.topo.process import LoggedProcess
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import SwitchPort, SwitchProcess
from weir.topo.testbed import turn_offloads_off
from weir_tests.testbed.lab import Lab

NAMES = {"client": "client", "server": "server", "sink": "collector"}
"""Hosts of the network by those of the experiment; names of interfaces have 15 characters at most."""
SCHEDULER = "127.0.0.1:8786"
CAMPAIGN = """\
name: {name}
time: virtual # a testbed makes it real
seed: 1
matrix: {{rate: [5 Mbit/s, 10 Mbit/s]}}
repeats: 2
hosts: {{client: {{delay: 5 ms}}, server: {{delay: 5 ms}}}}
flows:
  - {{name: one, from: server, to: client, congestion_control: bbr, duration: 5 s, measured: true}}
  - {{name: two, from: server, to: client, congestion_control: cubic, duration: 5 s, measured: true}}
policers:
  - {{name: common, rate: $rate, burst: 20 ms, match: [{{from: server, to: client}}]}}
{more}
"""


def testbed_file(lab: Lab, number: int, folder: Path) -> Path:
    """Write the file of a testbed."""
    data = lab.data()
    hosts = {known: {**data["hosts"][f"{name}{number}"]} for name, known in NAMES.items()}
    for port, entry in enumerate(hosts.values(), 1):
        entry.update(switch_port=port, disk_limit="30 MB")
    switch = {"address": f"127.0.0.1:{9600 + number}", "device_id": number}
    path = folder / f"testbed{number}.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump({**data, "name": f"rack{number}", "switch": switch, "hosts": hosts}, file)
    return path


def switch_of(number: int, folder: Path) -> SwitchProcess:
    """The switch of a testbed, without a program."""
    ports = [SwitchPort(port, f"{name}{number}-exp") for port, name in enumerate(NAMES, 1)]
    return SwitchProcess(
        ports, folder / f"switch{number}", p4runtime=f"127.0.0.1:{9600 + number}", device_id=number
    )


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """A dask scheduler and two workers."""
    dask = [sys.executable, "-m", "dask"]
    commands = [
        [*dask, "scheduler", "--host", SCHEDULER, "--no-dashboard"],
        *[[*dask, "worker", f"tcp://{SCHEDULER}", "--nthreads", "1", "--no-dashboard"]] * 2,
    ]
    with contextlib.ExitStack() as stack:
        for number, argv in enumerate(commands):
            process = LoggedProcess(f"dask {number}", argv, folder / f"dask-{number}.log")
            stack.callback(process.stop)
            process.wait_line("Scheduler at:" if number == 0 else "Registered to:", 60.0)
        yield


def campaign(folder: Path, name: str, more: str, testbeds: Sequence[Path], *words: str) -> dict[str, Any]:
    """A campaign to its end: its exit code and its runs, with the testbed and times of each."""
    file, runs = folder / f"{name}.yaml", folder / "runs"
    file.write_text(CAMPAIGN.format(name=name, more=more))
    argv = [str(Path(sys.executable).with_name("weir")), "campaign", str(file), "--runs", str(runs)]
    for testbed in testbeds:
        argv += ["--testbed", str(testbed)]
    done = subprocess.run([*argv, *words], capture_output=True, text=True, check=False, timeout=900)
    found = []
    for path in sorted((runs / f"{name}-real").glob("*/manifest.json")):
        manifest, result = read_manifest(path.parent), json.loads((path.parent / "result.json").read_text())
        assert manifest.testbed is not None
        (phase,) = manifest.phases
        found.append(
            {
                "testbed": manifest.testbed.name,
                "times": [phase.start_ns, phase.end_ns],
                "valid": result["valid"],
                "reasons": result["invalid_reasons"],
                "law": result["law"],
                "pcap": (path.parent / "pcap").exists(),
                "bytes": [[host.capture_bytes, host.fetched_bytes] for host in manifest.hosts],
            }
        )
    return {"code": done.returncode, "said": done.stdout + done.stderr, "runs": found}


def main(stop: StopToken) -> int:
    """Make a campaign from this machine alone, and one by dask's workers."""
    folder = Path(sys.argv[1])
    NETNS_FOLDER.mkdir(exist_ok=True)
    with Lab(folder / "lab") as lab, contextlib.ExitStack() as stack:
        for number in (1, 2):
            for name in NAMES:
                lab.add(f"{name}{number}")
                turn_offloads_off([], f"{name}{number}-exp")
            stack.enter_context(switch_of(number, folder)).wait_ready(stop)
        testbeds = [testbed_file(lab, number, folder) for number in (1, 2)]
        found = {"alone": campaign(folder, "alone", "capture: {keep: results}", testbeds)}
        with cluster(folder):
            words = ("--scheduler", f"tcp://{SCHEDULER}")
            found["workers"] = campaign(folder, "workers", "keep: results", testbeds, *words)
    (folder / "result.json").write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    inside(main)
