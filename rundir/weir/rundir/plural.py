# SPDX-License-Identifier: Apache-2.0
"""Counts with their nouns, in messages and on pages."""


def plural(n: int, one: str, many: str | None = None) -> str:
    """`1 packet`, `2 packets`; `many` where that is not `one` with an s."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
