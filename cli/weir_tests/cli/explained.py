# SPDX-License-Identifier: Apache-2.0
"""The law that holds in each sound run on a testbed: every missing packet was reported, once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def assert_every_packet_is_explained(run: Mapping[str, Any]) -> None:
    """Check a run of a scenario: exit code, validity, the account, and one policer for all pairs."""
    assert run["code"] == 0, run["stderr"]
    result = run["output"]
    print(result["law"])
    assert result["valid"], result["invalid_reasons"]
    law = result["law"]
    assert (law["unexplained"], law["contradictions"]) == (0, 0)
    assert law["reported_drops"] == law["missing"] > 100
    assert [pair["truth"] for pair in result["pairs"]] == ["shared"] * len(result["pairs"])
