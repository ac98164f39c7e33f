# SPDX-License-Identifier: Apache-2.0
"""Writes run directories with contents that nobody measured, for tests of archives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COMPLETE: dict[str, Any] = {
    "schema": 1,
    "name": "demo",
    "run_id": "r1",
    "weir_version": "0.1.0",
    "commit": "0123456789ab",
    "started_ns": 1_760_000_000_000_000_000,
    "finished_ns": 1_760_000_080_000_000_000,
    "complete": True,
    "state": "complete",
    "error": None,
    "target": "softswitch",
    "seed": 7,
    "hosts": [{"name": "client", "addresses": ["10.0.0.1"], "pcap": "pcap/client.pcap"}],
}
IPERF = """{
\t"start":\t{
\t\t"version":\t"iperf 3.12",
\t\t"system_info":\t"Linux build-box-17 6.1.0 #1 SMP x86_64"
\t}
}
"""


def make_run(path: Path, *, raw: bool = True, **fields: Any) -> Path:
    """Write a run directory: `fields` are of its manifest, without `raw` its captures were not kept."""
    (path / "logs").mkdir(parents=True)
    manifest = COMPLETE | {"run_id": path.name, "name": path.parent.name} | fields
    (path / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    (path / "config.yaml").write_text(f"name: {path.parent.name}\n")
    (path / "result.json").write_text('{\n "complete": true\n}')
    (path / "report.html").write_text(f"<p>from {path.absolute()}/pcap/client.pcap</p>")
    (path / "logs" / "flow-main-one.json").write_text(IPERF)
    (path / "logs" / "weir-collector.log").write_text(f"3 rows in {path.absolute()}/telemetry.parquet\n")
    if raw:
        (path / "pcap").mkdir()
        (path / "pcap" / "client.pcap").write_bytes(bytes(range(256)) * 40)
        (path / "telemetry.parquet").write_bytes(b"PAR1 rows PAR1")
        (path / "collector.json").write_text('{"schema": 1, "received": 3}')
    return path


def make_campaign(folder: Path, *keys: str) -> Path:
    """Write the folder of a campaign with these runs, one failed and one under way."""
    for key in keys:
        cell = {"rate": key.partition("_")[0]}
        software: dict[str, Any] = {"weir_version": "0.1.0", "commit": None, "programs": {}}
        identity = {"run": key, "cell": cell, "repeat": 0, "config_digest": "d", "software": software}
        make_run(folder / key, campaign=identity)
    (folder / "campaign.yaml").write_text(f"name: {folder.name}\n")
    (folder / "index.html").write_text("<p>page</p>")
    (folder / "data").mkdir()
    (folder / "data" / "loss.csv").write_text("loss\n0.1\n")
    (folder / ".lock").touch()
    make_run(folder / "failed" / "bad_r001.1")
    make_run(folder / ".partial" / "half_r001", complete=False, state="running")
    return folder
