# SPDX-License-Identifier: Apache-2.0
"""Which cells of the policer meter each policer has, over all phases, and which of them a flow hashes to."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Sequence

from weir.controlplane.errors import PlanError

FIRST_CELL = 1
"""Cell 0 stays free, so that a report without a policer and one of the first policer are not alike."""


def allocate(sizes: Sequence[int], cells: int) -> tuple[int, ...]:
    """Give each of ``sizes`` (powers of two) a range of the meter's ``cells``; returns their first cells.

    A range is aligned to its size, so that one ternary entry covers it. Largest first, each at the lowest
    free place: with power-of-two sizes that leaves no hole unused (buddy allocation), and policers of one
    cell are numbered in their order. No two ranges overlap, whichever phases they are for: the counters of a
    phase stay its own.

    Raises:
        PlanError: the ranges do not fit.
    """
    free = [(FIRST_CELL, cells)]
    bases: dict[int, int] = {}
    for position, size in sorted(enumerate(sizes), key=lambda item: (-item[1], item[0])):
        for index, (low, high) in enumerate(free):
            base = -(-low // size) * size
            if base + size <= high:
                free[index : index + 1] = [
                    part for part in ((low, base), (base + size, high)) if part[0] < part[1]
                ]
                bases[position] = base
                break
        else:
            raise PlanError(
                f"the policers of all phases need {sum(sizes)} cells; "
                f"valid: at most {cells - FIRST_CELL} in total"
            )
    return tuple(bases[position] for position in range(len(sizes)))


def hashed_cell(
    base: int, cells: int, src: str, dst: str, protocol: int, src_port: int, dst_port: int
) -> int:
    """The cell of a flow behind a per_flow_hashed policer, as the pipeline's ``police_hashed`` computes it.

    CRC-32 (IEEE 802.3) of source, destination, protocol and ports in network order; its low bits pick.
    The addresses are both of IPv4 or both of IPv6.
    """
    key = (
        ipaddress.ip_address(src).packed
        + ipaddress.ip_address(dst).packed
        + bytes([protocol])
        + src_port.to_bytes(2, "big")
        + dst_port.to_bytes(2, "big")
    )
    return base + (zlib.crc32(key) & (cells - 1))
