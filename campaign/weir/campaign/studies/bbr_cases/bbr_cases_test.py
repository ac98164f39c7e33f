# SPDX-License-Identifier: Apache-2.0
"""The judges of BBR's test cases, on flows whose states are given: right ones, and such with one mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from weir.analysis.bbr_track import BbrTrack, bbr_track
from weir.campaign.studies.bbr_cases import CASES
from weir.campaign.studies.bbr_cases.model import Conditions, verdict
from weir_tests.campaign.textbook_bbr import BDP, CYCLE, DRAIN, RATE_BPS, STARTUP, TEXTBOOK, Step, samples

PATH = Conditions(rate_bps=RATE_BPS, policed_bps=None, changes=(), dropped=0)
CRUISE = Step("PROBE_CRUISE", 20)


def track(*steps: Step, version: int = 3) -> BbrTrack:
    found = bbr_track(samples(*steps, version=version), 0)
    assert found is not None
    return found


def judged(name: str, steps: Sequence[Step], path: Conditions = PATH, version: int = 3) -> bool | None:
    (case,) = [one for one in CASES if one.name == name]
    return verdict(case.judge(track(*steps, version=version), path))


def changed(steps: Sequence[Step], state: str, **new: object) -> list[Step]:
    return [replace(step, **new) if step.state == state else step for step in steps]  # type: ignore[arg-type]


def test_rounds_end_when_what_was_in_flight_is_delivered() -> None:
    found = track(CRUISE)
    assert np.diff(found.time_s[found.rounds(0, len(found.time_s))]) == pytest.approx(0.1, abs=0.006)
    idle = track(Step("PROBE_CRUISE", 3), Step("PROBE_CRUISE", 5, (0, 0)), Step("PROBE_CRUISE", 3))
    assert len(idle.rounds(0, len(idle.time_s))) == 5


def test_states_of_bbr1_follow_from_its_gains() -> None:
    rows = [row | {"bbr_phase": None, "bbr_version": None} for row in samples(CRUISE)[:6]]
    gains = [(739 / 256, 739 / 256), (88 / 256, 739 / 256), (1.25, 2), (0.75, 2), (1, 2), (1, 1)]
    rows = [
        row | {"bbr_pacing_gain": pacing, "bbr_cwnd_gain": cwnd}
        for row, (pacing, cwnd) in zip(rows, gains, strict=True)
    ]
    found = bbr_track(rows, 0)
    assert found is not None
    assert found.version == 1
    assert found.states == ("STARTUP", "DRAIN", "PROBE_UP", "PROBE_DOWN", "PROBE_CRUISE", "PROBE_RTT")
    assert bbr_track([], 0) is None


@pytest.mark.parametrize("case", [case.name for case in CASES if case.part == "bulk"])
def test_a_textbook_flow_holds_in_each_case_of_a_flow_alone(case: str) -> None:
    assert judged(case, TEXTBOOK) is True


SPOILED = {
    "the bandwidth is 5 % too high": (
        "Exiting STARTUP on bandwidth plateau",
        [replace(step, bandwidth=step.bandwidth * 1.05) for step in TEXTBOOK],
    ),
    "STARTUP lasts five rounds longer": (
        "Exiting STARTUP on bandwidth plateau",
        [*STARTUP, Step("STARTUP", 5), *TEXTBOOK[4:]],
    ),
    "STARTUP has no end": ("Exiting STARTUP on bandwidth plateau", STARTUP),
    "DRAIN has the gain of Linux": (
        "Exiting DRAIN based on inflight",
        changed(TEXTBOOK, "DRAIN", pacing_gain=88 / 256),
    ),
    "DRAIN ends too early": (
        "Exiting DRAIN based on inflight",
        [*STARTUP, replace(DRAIN, inflight=(2, 1.4)), replace(CRUISE, inflight=(1.4, 1)), *TEXTBOOK[5:]],
    ),
    "PROBE_UP lasts a round": (
        "Exiting PROBE_UP on bandwidth plateau",
        changed(TEXTBOOK, "PROBE_UP", rounds=1),
    ),
    "PROBE_DOWN ends too early": (
        "Exiting PROBE_DOWN on inflight",
        [
            replace(step, inflight=(1.4, 1.4)) if step.state == "PROBE_CRUISE" and step.rounds == 9 else step
            for step in changed(TEXTBOOK, "PROBE_DOWN", inflight=(1.9, 1.4))
        ],
    ),
    "PROBE_RTT each 10 s": (
        "Entering and exiting PROBE_RTT",
        [*STARTUP, DRAIN, *CYCLE[:-1], *CYCLE[:-1], Step("PROBE_CRUISE", 20), CYCLE[-1], CRUISE],
    ),
    "PROBE_RTT with 4 segments": (
        "Entering and exiting PROBE_RTT",
        changed(TEXTBOOK, "PROBE_RTT", cwnd=4 / BDP),
    ),
    "PROBE_RTT of 100 ms": ("Entering and exiting PROBE_RTT", changed(TEXTBOOK, "PROBE_RTT", rounds=1)),
}


@pytest.mark.parametrize("mistake", SPOILED)
def test_a_flow_with_one_mistake_does_not_hold(mistake: str) -> None:
    case, steps = SPOILED[mistake]
    assert judged(case, steps) is False


def at(time_s: float, share: float = 1.0) -> Conditions:
    """A path whose bandwidth is a share of that at the start, from a time on."""
    return replace(PATH, changes=((time_s, share * RATE_BPS),))


LIMITED = Step("STARTUP", 40, (0.5, 0.5))
LOSSY_UP = (
    Step("PROBE_REFILL", 1, longterm=100),
    Step("PROBE_UP", 1, longterm=100, retransmitted=5),
    Step("PROBE_DOWN", 2, longterm=70),
    Step("PROBE_CRUISE", 5, longterm=70),
)
AFTER_A_SECOND = replace(PATH, changes=((2.0, RATE_BPS), (2.5, RATE_BPS)))
POLICED = replace(PATH, policed_bps=RATE_BPS / 2)
SPURIOUS = Step("PROBE_CRUISE", 5, cwnd=1, longterm=300, retransmitted=30)
BEFORE, AFTER = Step("PROBE_CRUISE", 20, longterm=300), Step("PROBE_CRUISE", 60, longterm=300)

CASES_OF_OTHER_PARTS = {
    # name: steps, path, verdict
    "Exiting STARTUP on loss when application-limited": [
        ([LIMITED, replace(DRAIN, longterm=120), CRUISE], at(3.9), True),
        ([LIMITED, DRAIN, CRUISE], at(3.9), False),
        ([LIMITED], at(3.0), False),
        ([*STARTUP, DRAIN, CRUISE], at(3.0), None),
    ],
    "Exiting DRAIN based on time": [
        ([*STARTUP, Step("DRAIN", 3, (2, 1.8)), replace(CRUISE, inflight=(1.8, 1.8))], at(0.5, 0.2), True),
        ([*STARTUP, Step("DRAIN", 12, (2, 1.5)), replace(CRUISE, inflight=(1.5, 1.5))], at(0.5, 0.2), False),
        ([*STARTUP, DRAIN, CRUISE], at(0.5, 0.2), None),
        ([*STARTUP, Step("DRAIN", 2, (2, 1.8)), CYCLE[-1], CRUISE], at(0.5, 0.2), None),
    ],
    "Exiting PROBE_UP on loss when application-limited": [
        ([*LOSSY_UP, *LOSSY_UP, CRUISE], PATH, True),
        ([*changed(LOSSY_UP, "PROBE_DOWN", longterm=100), CRUISE], PATH, False),
        ([*changed(LOSSY_UP, "PROBE_UP", rounds=8), CRUISE], PATH, False),
        ([CRUISE], PATH, None),
    ],
    "Never exiting STARTUP when application-limited with no loss": [
        ([LIMITED, CYCLE[-1], LIMITED], PATH, True),
        ([LIMITED, DRAIN, CRUISE], PATH, False),
    ],
    "Exiting PROBE_DOWN after max time": [
        ([CRUISE, Step("PROBE_DOWN", 20, (1.3, 1.2)), Step("PROBE_REFILL", 2, (1.2, 1.2))], at(1), True),
        ([CRUISE, Step("PROBE_DOWN", 20, (1.3, 1.2)), Step("PROBE_CRUISE", 2, (1.2, 1.2))], at(1), False),
        ([CRUISE, Step("PROBE_DOWN", 4, (1.3, 1)), CRUISE], at(1), None),
    ],
    "Skipping PROBE_RTT due to application-limited sending": [
        ([CRUISE, Step("PROBE_CRUISE", 60, (0, 0)), CRUISE], PATH, True),
        ([CRUISE, Step("PROBE_CRUISE", 60, (0, 0)), CYCLE[-1], CRUISE], PATH, False),
        ([CRUISE, Step("PROBE_CRUISE", 30, (0, 0)), CRUISE], PATH, None),
    ],
    "Achieving expected STARTUP bandwidth with aggregation": [
        ([*changed(STARTUP, "STARTUP", cwnd=2.5), DRAIN], PATH, True),
        ([*STARTUP[:3], Step("STARTUP", 4, bandwidth=0.9, cwnd=2.5), DRAIN], PATH, False),
        ([*changed(STARTUP, "STARTUP", cwnd=1.5), DRAIN], PATH, False),
    ],
    "Achieving expected cruise bandwidth with aggregation": [
        ([CRUISE], PATH, None),
        ([DRAIN, CRUISE, *CYCLE], PATH, True),
        (
            [
                DRAIN,
                replace(CRUISE, inflight=(0.8, 0.8)),
                *changed(CYCLE, "PROBE_CRUISE", inflight=(0.8, 0.8)),
            ],
            PATH,
            False,
        ),
        ([DRAIN, replace(CRUISE, extra_acked=0)], PATH, False),
    ],
    "Correctly managing sub-packet BDPs": [
        ([Step("PROBE_CRUISE", 300)], PATH, True),
        ([Step("PROBE_CRUISE", 300, cwnd=3 / BDP)], PATH, False),
        ([Step("PROBE_CRUISE", 300, bandwidth=1.3)], PATH, False),
        ([Step("STARTUP", 300)], PATH, None),
    ],
    "Increasing bandwidth 10x": [
        ([Step("PROBE_CRUISE", 20, bandwidth=0.1), Step("PROBE_UP", 12, bandwidth=0.5), CRUISE], at(1), True),
        (
            [Step("PROBE_CRUISE", 20, bandwidth=0.1), Step("PROBE_UP", 80, bandwidth=0.5), CRUISE],
            at(1),
            False,
        ),
        ([Step("PROBE_CRUISE", 20, bandwidth=0.1), Step("PROBE_UP", 12, bandwidth=0.5)], at(1), False),
    ],
    "Decreasing bandwidth 10x": [
        ([CRUISE, Step("PROBE_CRUISE", 90, (0.1, 0.1), 0.1)], at(1.8, 0.1), True),
        ([CRUISE, CRUISE, Step("PROBE_CRUISE", 90, (0.1, 0.1), 0.1)], at(1.8, 0.1), False),
        ([CRUISE, Step("PROBE_CRUISE", 90, (0.1, 0.1), 0.12)], at(1.8, 0.1), False),
    ],
    "Handling token bucket policers": [
        ([Step("PROBE_CRUISE", 300, (0.5, 0.5), 0.5, shortterm=80, retransmitted=5)], POLICED, True),
        ([Step("PROBE_CRUISE", 300, (0.5, 0.5), 0.5, retransmitted=5)], POLICED, False),
        ([Step("PROBE_CRUISE", 100, (0.5, 0.5), 0.5, shortterm=80, retransmitted=900)] * 3, POLICED, False),
        ([Step("PROBE_CRUISE", 300, (0.3, 0.3), 0.3, shortterm=80)], POLICED, False),
    ],
    "Handling spurious fast recovery": [
        ([BEFORE, SPURIOUS, AFTER], AFTER_A_SECOND, True),
        ([BEFORE, SPURIOUS, replace(AFTER, cwnd=1)], AFTER_A_SECOND, False),
        ([BEFORE, SPURIOUS, replace(AFTER, longterm=200)], AFTER_A_SECOND, False),
        ([BEFORE, SPURIOUS, replace(AFTER, state="STARTUP")], AFTER_A_SECOND, False),
        ([BEFORE, AFTER, AFTER], AFTER_A_SECOND, None),
        ([BEFORE, SPURIOUS, AFTER], replace(AFTER_A_SECOND, dropped=30), None),
    ],
    "Handling spurious RTO recovery": [([BEFORE, SPURIOUS, AFTER], AFTER_A_SECOND, True)],
    "Entering and exiting PROBE_RTT during STARTUP": [
        ([LIMITED, CYCLE[-1], LIMITED], PATH, True),
        ([LIMITED, CYCLE[-1], CRUISE], PATH, False),
        ([LIMITED], PATH, None),
    ],
    "Handling loss during PROBE_UP after inflight_longterm is set": [
        ([CRUISE, *LOSSY_UP], at(1), True),
        ([CRUISE, *changed(LOSSY_UP, "PROBE_DOWN", longterm=100)], at(1), False),
        ([*LOSSY_UP, CRUISE], at(3), None),
    ],
    "Handling application-limited sending during PROBE_REFILL": [
        ([CRUISE, Step("PROBE_REFILL", 2, (1, 0)), Step("PROBE_UP", 3), CRUISE], PATH, True),
        ([CRUISE, Step("PROBE_REFILL", 2, (1, 0)), Step("PROBE_UP", 3, bandwidth=0.7), CRUISE], PATH, False),
        ([CRUISE, Step("PROBE_REFILL", 2), Step("PROBE_UP", 3), CRUISE], PATH, None),
    ],
}


@pytest.mark.parametrize("name", CASES_OF_OTHER_PARTS)
def test_each_other_case_holds_fails_or_is_not_shown(name: str) -> None:
    for number, (steps, path, wanted) in enumerate(CASES_OF_OTHER_PARTS[name]):
        assert judged(name, steps, path) is wanted, (number, wanted)


def test_every_case_is_tested() -> None:
    alone = {case.name for case in CASES if case.part == "bulk"}
    assert alone | set(CASES_OF_OTHER_PARTS) == {case.name for case in CASES}


def test_what_bbr1_does_not_tell_is_not_judged() -> None:
    assert (
        judged("Exiting STARTUP on loss when application-limited", [LIMITED, DRAIN, CRUISE], at(3.9), 1)
        is None
    )
    policed = [Step("PROBE_CRUISE", 300, (0.5, 0.5), 0.5, retransmitted=5)]
    assert judged("Handling token bucket policers", policed, POLICED, 1) is True
