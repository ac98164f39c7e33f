# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from weir.campaign.errors import CampaignError
from weir.campaign.load import Overrides, parse_campaign
from weir.campaign.virtual import OUTSIDE_MB, is_virtual, jobs_in_memory

TEXT = """
name: x
matrix: {time: [real, virtual]}
time: $time
hosts: {a: {}, b: {}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""


def test_memory_limits_the_runs_at_a_time_and_says_so() -> None:
    each = 1024 + OUTSIDE_MB
    assert jobs_in_memory(4, 1024, 4 * each) == (4, "")
    jobs, note = jobs_in_memory(4, 1024, 4 * each - 1)
    assert jobs == 3
    assert note == (
        f"3 runs at a time instead of 4: each needs {each:,} MB, and {4 * each - 1:,} MB are available; "
        "a smaller --memory allows more"
    )
    assert jobs_in_memory(2, 1024, each)[1].startswith("1 run at a time instead of 2: ")


def test_no_memory_for_one_run_is_an_error_that_names_both_numbers() -> None:
    with pytest.raises(CampaignError) as refused:
        jobs_in_memory(2, 2048, 2000)
    assert str(refused.value) == (
        f"a run in virtual time needs {2048 + OUTSIDE_MB:,} MB (2,048 MB for its guest), and 2,000 MB are "
        "available; valid: a smaller --memory, or a machine with more"
    )


def test_a_campaign_is_virtual_if_all_its_runs_are() -> None:
    assert not is_virtual(parse_campaign(TEXT))
    text = TEXT.replace("[real, virtual]", "[virtual]")
    assert is_virtual(parse_campaign(text))
    plain = TEXT.replace("matrix: {time: [real, virtual]}\ntime: $time\n", "")
    assert not is_virtual(parse_campaign(plain))
    assert is_virtual(parse_campaign(plain, overrides=Overrides(time="virtual")))
