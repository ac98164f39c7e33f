# SPDX-License-Identifier: Apache-2.0
"""What the check of a bf_switchd says of many ports."""

import pytest

from weir.controlplane.bfruntime.check import ranges_of


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), ""), ((4,), "4"), ((0, 1, 2, 3, 128), "0 to 3, 128"), ((5, 7, 8), "5, 7 to 8")],
)
def test_ports_in_a_row_are_one_range(numbers: tuple[int, ...], text: str) -> None:
    assert ranges_of(numbers) == text
