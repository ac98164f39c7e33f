# SPDX-License-Identifier: Apache-2.0
import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from weir.runner.core import own_core


@pytest.fixture(autouse=True)
def no_other_guests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in virtual time beside this test have cores, too."""
    monkeypatch.setattr("weir.runner.core.NAME", f"\0weir-test-{os.getpid()}-on-core-{{}}")


@pytest.fixture
def guests() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_guests_have_cores_of_their_own_until_there_are_none(guests: ExitStack) -> None:
    cores = os.sched_getaffinity(0)
    found = [guests.enter_context(own_core()) for _ in cores]
    assert set(found) == cores
    assert guests.enter_context(own_core()) is None


def test_a_core_is_free_again_after_its_guest(guests: ExitStack) -> None:
    with own_core() as first:
        assert first is not None
    assert first in [guests.enter_context(own_core()) for _ in os.sched_getaffinity(0)]


def test_the_core_is_one_that_the_process_may_use(guests: ExitStack) -> None:
    allowed = os.sched_getaffinity(0)
    only = max(allowed)
    os.sched_setaffinity(0, {only})
    try:
        assert guests.enter_context(own_core()) == only
    finally:
        os.sched_setaffinity(0, allowed)
