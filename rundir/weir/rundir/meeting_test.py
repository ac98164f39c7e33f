# SPDX-License-Identifier: Apache-2.0
"""A flow meets the first policer with a match that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weir.rundir.meeting import Header, Match, UnknownPortError, first_met

HEADER = Header("10.0.0.1", "10.0.0.2", 6, 5000, 80)


@pytest.mark.parametrize(
    ("match", "meets"),
    [
        (Match(), True),
        (Match(src=("10.0.0.1", "fd00::1")), True),
        (Match(src=("10.0.0.2",)), False),
        (Match(dst=("10.0.0.2",)), True),
        (Match(dst=()), False),
        (Match(protocol=6), True),
        (Match(protocol=17), False),
        (Match(src_port=5000, dst_port=80), True),
        (Match(src_port=80), False),
        (Match(dst_port=5000), False),
        (Match(dscp=0), True),
        (Match(dscp=46), False),
    ],
)
def test_a_match_fits_if_all_its_fields_do(match: Match, meets: bool) -> None:
    assert match.meets(HEADER) is meets


def test_marked_packets_meet_the_policer_for_their_dscp() -> None:
    marked = replace(HEADER, dscp=46)
    policers = [("expedited", (Match(dscp=46),)), ("rest", (Match(),))]
    assert first_met(policers, marked) == "expedited"
    assert first_met(policers, HEADER) == "rest"


def test_the_first_policer_with_a_fitting_match_is_met() -> None:
    policers = [
        ("none", ()),
        ("udp", (Match(protocol=17),)),
        ("web", (Match(dst_port=80),)),
        ("all", (Match(),)),
    ]
    assert first_met(policers, HEADER) == "web"
    assert first_met(policers[:2], HEADER) is None


def test_an_unknown_port_is_an_error_only_if_the_result_depends_on_it() -> None:
    early = Header("10.0.0.1", "10.0.0.2", 6)
    assert Match(protocol=17, dst_port=80).meets(early) is False
    with pytest.raises(UnknownPortError):
        Match(protocol=6, dst_port=80).meets(early)
