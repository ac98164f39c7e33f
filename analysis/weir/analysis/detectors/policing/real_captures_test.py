# SPDX-License-Identifier: Apache-2.0
"""The detector on captures of real policers and shapers, if present; the file names hold the truth."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from weir.analysis.detectors.policing.own import detect_policing
from weir.analysis.traces import traces_of

pytest.importorskip("weir_core", reason="weir_core is not built; make setup builds it")

ROOT = Path(__file__).parents[5]
TRACES = Path(os.environ.get("WEIR_TRACES", ROOT.parent / "shared" / "traces"))
FCS = 1518 / 1514
"""These policers count the frame check sequence; the estimates here do not."""
QUICK = (
    *("CP=10001.", "CP=10006.", "CP=10011.", "CP=10016.", "CP=10003.", "CP=10007.", "CP=10017."),
    *("CP1=16290-", "CP1=16315-", "CP=11465.", "CP=12368.", "CP=12369.", "CP=10815.", "CP=10817."),
)
"""Small bursts, large ones, two flows, queues, random loss; WEIR_TRACES_ALL=1 takes all files."""
FILES = [
    path
    for path in sorted(TRACES.glob("*.pcap.xz"))
    if os.environ.get("WEIR_TRACES_ALL") or any(name in path.name for name in QUICK)
]


def truth(path: Path, key: str) -> float | None:
    found = re.search(rf"-{key}=(\d+)", path.name)
    return float(found.group(1)) if found else None


@pytest.mark.skipif(not FILES, reason=f"no captures in {TRACES}; WEIR_TRACES names another folder")
@pytest.mark.parametrize(
    "path", FILES, ids=lambda path: re.sub(r"C=5-L=2000000-|RTT.*T=1-|\.pcap.*", "", path.name)
)
def test_policers_are_found_with_rate_and_burst_and_nothing_else_is_one(path: Path) -> None:
    ports = {int(port) for port in re.findall(r"CP\d?=(\d+)", path.name)}
    rate_bps, burst_bytes = truth(path, "PCIR"), truth(path, "PBC")
    capture = traces_of(path)
    verdicts = detect_policing(capture.flows)
    found = [v for v, flow in zip(verdicts, capture.flows, strict=True) if flow.dst_port in ports]
    assert len(found) == len(ports)
    for verdict in found:
        print(f"{verdict.verdict} {verdict.rate_bps} {verdict.burst_bytes} {verdict.reason}")
        if rate_bps is None or burst_bytes is None:
            assert (verdict.verdict, verdict.rate_bps) == ("not_policed", None), verdict.reason
            continue
        assert verdict.verdict == "policed", verdict.reason
        assert verdict.rate_bps == pytest.approx(rate_bps / FCS, rel=0.05)
        assert verdict.burst_bytes is not None
        # Flows before the capture may have used tokens.
        slack = 0.1 if len(ports) == 1 else 0.15
        assert verdict.burst_bytes == pytest.approx(burst_bytes, rel=slack, abs=FCS * 1514)
