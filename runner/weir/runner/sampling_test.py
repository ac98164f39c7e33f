# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
from typing import Any

import pytest

from weir.controlplane.errors import SwitchUnreachableError
from weir.runner import sampling
from weir.runner.progress import Sample

NOTHING: Any = None  # the readings are replaced, so neither switch nor phase is used


def replace_readings(monkeypatch: pytest.MonkeyPatch, *, fails_at: int | None = None) -> list[int]:
    reads: list[int] = []

    async def read(_control: object, _phase: object) -> Sample:
        reads.append(len(reads))
        if fails_at is not None and len(reads) > fails_at:
            raise SwitchUnreachableError("gone")
        return Sample(float(len(reads)), ())

    monkeypatch.setattr(sampling, "read_sample", read)
    monkeypatch.setattr(sampling, "PERIOD_S", 0.0)
    return reads


def test_nothing_is_read_without_a_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = replace_readings(monkeypatch)

    async def phase() -> None:
        async with sampling.sampled(NOTHING, NOTHING, None):
            await asyncio.sleep(0)

    asyncio.run(phase())
    assert reads == []


def test_samples_arrive_during_the_phase_and_one_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = replace_readings(monkeypatch)
    samples: list[Sample] = []

    async def phase() -> int:
        async with sampling.sampled(NOTHING, NOTHING, samples.append):
            while len(samples) < 3:
                await asyncio.sleep(0)
            return len(samples)

    during = asyncio.run(phase())
    assert len(samples) == during + 1 == len(reads)


def test_a_switch_that_does_not_answer_ends_the_samples_and_not_the_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = replace_readings(monkeypatch, fails_at=2)
    samples: list[Sample] = []

    async def phase() -> str:
        async with sampling.sampled(NOTHING, NOTHING, samples.append):
            while len(reads) < 3:
                await asyncio.sleep(0)
            return "ended"

    assert asyncio.run(phase()) == "ended"
    assert len(samples) == 2


def test_no_sample_is_given_after_a_phase_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = replace_readings(monkeypatch)

    async def phase() -> None:
        async with sampling.sampled(NOTHING, NOTHING, lambda _sample: None):
            while not reads:
                await asyncio.sleep(0)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        asyncio.run(phase())
