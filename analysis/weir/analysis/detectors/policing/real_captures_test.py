# SPDX-License-Identifier: Apache-2.0
"""The detector on captures of real policers and shapers, where present; the file names hold the truth."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weir.analysis.captures import traces_of
from weir.analysis.detectors.policing.own import detect_policing
from weir_tests.analysis.real_captures import MISSING, real_captures

pytest.importorskip("weir_core", reason="weir_core is not built; make setup builds it")

FCS = 1518 / 1514
"""These policers count the frame check sequence; the estimates here do not."""
IN_MID_TRANSFER = ("CP1=16295-", "CP1=16320-")
"""One of their flows had used tokens before the capture begins, and the bucket is never full again."""
FILES = real_captures()
if not FILES:
    pytest.skip(MISSING, allow_module_level=True)


def truth(path: Path, key: str) -> float | None:
    found = re.search(rf"-{key}=(\d+)", path.name)
    return float(found.group(1)) if found else None


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
        # As in docs/detectors.md. Two flows determine the rate; one may always find the bucket full again.
        assert verdict.rate_bps == pytest.approx(rate_bps / FCS, rel=0.037 if len(ports) == 1 else 0.00012)
        cut = any(name in path.name for name in IN_MID_TRANSFER)
        assert verdict.burst_bytes == pytest.approx(burst_bytes, rel=0.11 if cut else 0.013)


PAIRS = [path for path in FILES if "CP2=" in path.name]


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: re.sub(r".*-CP1=", "", path.stem))
def test_one_of_the_flows_of_a_policer_alone_does_not_show_that_there_is_none(path: Path) -> None:
    ports = {int(port) for port in re.findall(r"CP\d?=(\d+)", path.name)}
    flows = [flow for flow in traces_of(path).flows if flow.dst_port in ports]
    assert len(flows) == 2
    for flow in flows:
        [found] = detect_policing([flow])
        print(found.reason)
        assert found.verdict == "cannot_tell", found.reason
