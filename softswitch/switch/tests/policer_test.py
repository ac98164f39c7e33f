# SPDX-License-Identifier: Apache-2.0
"""A policer whose switch was stopped for a while meters the waiting frames at their own times of arrival.

The verdicts are compared with exact arithmetic on the captured time stamps; the test itself measures no time.
"""

from collections.abc import Callable
from typing import Any

import pytest
from policer_scenario import BURST_BYTES, FRAME_BYTES, RATE_BYTES_PER_S

# The kernel stamps with one clock and the switch meters with another; reading both takes this long at most.
CLOCKS_NS = 50_000
# Through AF_XDP nobody else sees a frame arrive. It is captured where it leaves, so long before at most.
LINK_NS = 500_000
SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def seen(run_receiving: Callable[[str, str], dict[str, Any]]) -> dict[str, Any]:
    """The scenario's observations."""
    return run_receiving("policer", "entities")


def test_each_frame_is_metered_at_its_own_arrival(seen: dict[str, Any], receive: str) -> None:
    passed = set(seen["left"])
    assert len(seen["arrived"]) == seen["sent"], "the capture saw every frame that arrived"
    assert len(passed) == seen["forwarded"], "the capture saw every frame that left"
    assert seen["overruns"] == 0, "the ring held every frame"
    # Tokens in bytes times ns, so that all numbers are whole; they follow the verdicts of the switch.
    full, need = BURST_BYTES * SECOND_NS, FRAME_BYTES * SECOND_NS
    uncertain = 2 * RATE_BYTES_PER_S * (CLOCKS_NS if receive == "ring" else LINK_NS)
    tokens, then_ns, undecided, wrong = full, seen["arrived"][0][0], 0, []
    for now_ns, number in seen["arrived"]:
        tokens = min(full, tokens + RATE_BYTES_PER_S * (now_ns - then_ns))
        then_ns = now_ns
        if abs(tokens - need) <= uncertain:
            undecided += 1
        elif (tokens > need) != (number in passed):
            wrong.append((number, now_ns, tokens / SECOND_NS, number in passed))
        if number in passed:
            tokens = max(0, tokens - need)
    print(f"{seen['sent']} frames, {len(passed)} passed, {undecided} too close to tell, {len(wrong)} wrong")
    assert wrong == []
    assert undecided < seen["sent"] // 2


def test_the_bucket_fills_while_the_switch_is_stopped(seen: dict[str, Any]) -> None:
    stopped_ns, resumed_ns, passed = seen["stopped_ns"], seen["resumed_ns"], set(seen["left"])
    meanwhile = [(now_ns, number) for now_ns, number in seen["arrived"] if stopped_ns < now_ns < resumed_ns]
    through = sum(number in passed for _, number in meanwhile) * FRAME_BYTES
    print(f"{len(meanwhile)} frames meanwhile, {through} bytes of them passed")
    # Metered all at one time, no more than the full bucket would pass.
    assert through > BURST_BYTES
