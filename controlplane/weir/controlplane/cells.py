# SPDX-License-Identifier: Apache-2.0
"""Allocates cells of the policer meter to the policers of all phases, and hashes flows to cells."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Sequence

from weir.controlplane.errors import PlanError

FIRST_CELL = 1
"""Cell 0 stays unused: in reports, 0 means that the packet has no policer."""


def allocate(sizes: Sequence[int], cells: int) -> tuple[int, ...]:
    """Allocate a range of the meter's ``cells`` for each of ``sizes`` (powers of two); returns first cells.

    A range is aligned to its size, so that one ternary entry covers it. The largest is allocated first, each
    at the lowest free offset: with power-of-two sizes this leaves no hole unused (buddy allocation), and
    single cells are numbered in their order. Ranges of different phases do not overlap either, so phases do
    not share counters.

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
    """The cell of a flow of a per_flow_hashed policer, as the pipeline's ``police_hashed`` computes it.

    The low bits of the CRC-32 (IEEE 802.3) of source, destination, protocol and ports in network order.
    Both addresses are IPv4, or both IPv6.
    """
    key = (
        ipaddress.ip_address(src).packed
        + ipaddress.ip_address(dst).packed
        + bytes([protocol])
        + src_port.to_bytes(2, "big")
        + dst_port.to_bytes(2, "big")
    )
    return base + (zlib.crc32(key) & (cells - 1))
