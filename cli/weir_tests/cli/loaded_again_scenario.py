# SPDX-License-Identifier: Apache-2.0
"""Run by `loaded_again_test.py` in a sandbox: weir's program is loaded onto switches that ran it before.

    a ── port 1 ┐
    b ── port 2 ┼── weir-switch, or bmv2
    (port 3: the collector)

Writes the copies of each packet to `result.json` in the folder argv[1].
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from weir.topo.bmv2proc import bmv2_problem
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.switchproc import DEFAULT_P4RUNTIME
from weir_tests.cli.switch_scenario import HOSTS, Scenario
from weir_tests.controlplane.other_program import load_other_program
from weir_tests.controlplane.scenario import frame, received

ONE = "{name: one, rate: 8 kbit/s, burst: 2 kB, match: [{from: a, dst_port: 9000}]}"
POLICED = range(4000, 4010)
"""Source ports of the policed packets: of those, a bucket of 2 kB passes two, and one more each second."""
LAST = 5000
"""Source port of packets that are sent until one of them arrives behind all others."""
FLOODED = 6000
B, COLLECTOR = 2, 3
STRANGER = replace(HOSTS["b"], mac="02:00:00:00:00:77")
_ETHERNET_IPV4 = 14 + 20
_REPORTED = 14 + 20 + 8 + 56 + _ETHERNET_IPV4
"""Where a report has the UDP header of the packet that it reports."""
_PATIENCE_S = 30.0


def copies(scene: Scenario, port: int, offset: int, send_last: Callable[[], object]) -> Counter[int]:
    """Frames that a port sends by their UDP source port at `offset`, up to the first of source port LAST.

    A port sends in order, so no frame that was sent in before is still to come. Raises TimeoutError.
    """
    seen: Counter[int] = Counter()
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up:
        send_last()
        select.select([scene.ends[port]], [], [], 0.2)
        for data in received(scene.ends[port]):
            source = int.from_bytes(data[offset : offset + 2], "big")
            if source == LAST:
                return seen
            seen[source] += 1
    raise TimeoutError(f"port {port} sent no last frame, but {seen}")


def sent_out(scene: Scenario) -> dict[str, Any]:
    """Police and flood packets from a; returns how often each was reported, and how often b received it."""
    for end in scene.ends.values():
        received(end)
    for source in POLICED:
        scene.send(source)
    reports = copies(scene, COLLECTOR, _REPORTED, lambda: scene.send(LAST))
    a, b = HOSTS["a"], HOSTS["b"]
    # These go to another UDP port than the policer's, so they are never dropped.
    flooded, last = (unpoliced(frame(a, to, source)) for to, source in ((STRANGER, FLOODED), (b, LAST)))
    received(scene.ends[B])
    scene.ends[1].send(flooded)
    passed = copies(scene, B, _ETHERNET_IPV4, lambda: scene.ends[1].send(last))
    return {"reports": [reports[source] for source in POLICED], "flooded": passed[FLOODED]}


def unpoliced(data: bytes) -> bytes:
    """A frame with another UDP destination port."""
    at = _ETHERNET_IPV4 + 2
    return data[:at] + (9001).to_bytes(2, "big") + data[at + 2 :]


def on(scene: Scenario, target: str, start: Callable[[], AbstractContextManager[Any]]) -> dict[str, Any]:
    """Apply; another controller loads its program; apply with --load-pipeline, twice. Packets after each."""
    config = scene.experiment(target, ONE, target)
    result: dict[str, Any] = {}
    with start():
        result["first"] = scene.weir("apply", config) | sent_out(scene)
        load_other_program(DEFAULT_P4RUNTIME)
        result["refused"] = scene.weir("apply", config)
        result["again"] = scene.weir("apply", config, "--load-pipeline") | sent_out(scene)
        load_other_program(DEFAULT_P4RUNTIME, cookie=None)
        result["refused_without_cookie"] = scene.weir("apply", config)
        result["thrice"] = scene.weir("apply", config, "--load-pipeline") | sent_out(scene)
        result["unchanged"] = scene.weir("apply", config, "--load-pipeline")
        result["status"] = scene.weir("status", config)
    return result


def main(_stop: StopToken) -> int:
    """Run the scenario on weir-switch, and on bmv2 if it is installed."""
    folder = Path(sys.argv[1])
    scene = Scenario(folder)
    scene.result["softswitch"] = on(scene, "softswitch", scene.switch)
    if bmv2_problem() is None:
        scene.result["bmv2"] = on(scene, "bmv2", scene.bmv2)
    (folder / "result.json").write_text(json.dumps(scene.result))
    return 0


if __name__ == "__main__":
    inside(main)
