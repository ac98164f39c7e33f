# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir.controlplane.cells import FIRST_CELL, allocate
from weir.controlplane.errors import PlanError


def test_single_cells_are_numbered_in_their_order_from_one() -> None:
    assert allocate([1, 1, 1], 65_536) == (1, 2, 3)


def test_ranges_are_aligned_and_small_ones_fill_the_gap_before_large_ones() -> None:
    assert allocate([1, 8, 1, 2], 65_536) == (1, 8, 4, 2)


def test_every_cell_but_the_first_can_be_used() -> None:
    sizes = [2**power for power in range(16)]  # 65,535 in total
    bases = allocate(sizes, 65_536)
    assert bases == tuple(sizes)


def test_one_cell_too_many_is_refused() -> None:
    with pytest.raises(PlanError) as error:
        allocate([1, *(2**power for power in range(16))], 65_536)
    assert str(error.value) == ("the policers of all phases need 65536 cells; valid: at most 65535 in total")


@given(st.lists(st.integers(min_value=0, max_value=6), max_size=40))
def test_ranges_never_overlap_and_fit_whenever_their_sum_does(powers: list[int]) -> None:
    sizes = [2**power for power in powers]
    if sum(sizes) > 1024 - FIRST_CELL:
        with pytest.raises(PlanError):
            allocate(sizes, 1024)
        return
    bases = allocate(sizes, 1024)
    taken = [cell for base, size in zip(bases, sizes, strict=True) for cell in range(base, base + size)]
    assert len(set(taken)) == len(taken)
    assert all(base % size == 0 for base, size in zip(bases, sizes, strict=True))
    assert all(FIRST_CELL <= cell < 1024 for cell in taken)
