# SPDX-License-Identifier: Apache-2.0
"""The records of a host's capture, whose clock may have been set back between two of them.

A file holds its records in the order in which they were captured, so times that go back show that the clock
was set. How much time passed between the two records is not known; it is taken as none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.analysis.tables import Ints

SET_BACK_NS = 1_000_000
"""Records are out of order by less where several processors capture."""
AFTERWARDS = 3
"""As many records after a time that is smaller must be smaller than the one before it, too."""


@dataclass(frozen=True)
class Records:
    """Numbers and times of the known records of a capture, in the order of the file.

    `set_back`: the first records after which the clock was set back; `by_ns`: by how much, in all until then.
    """

    number: Ints
    stamp_ns: Ints
    set_back: Ints
    by_ns: Ints

    def unfolded(self, number: Ints, stamp_ns: Ints) -> Ints:
        """The times of records as if the clock had not been set back."""
        if not len(self.set_back):
            return stamp_ns
        sums = np.concatenate([np.zeros(1, dtype=np.int64), self.by_ns])
        return np.asarray(
            stamp_ns + sums[np.searchsorted(self.set_back, number, side="right")], dtype=np.int64
        )


def records_of(number: Ints, stamp_ns: Ints) -> Records:
    """The records of a capture, given in any order."""
    order = np.argsort(number, kind="stable")
    number, stamp_ns = number[order], stamp_ns[order]
    back = np.flatnonzero(np.diff(stamp_ns) < -SET_BACK_NS)
    found = [at for at in back.tolist() if _stays(stamp_ns, at)]
    sizes = stamp_ns[found] - stamp_ns[np.array(found, dtype=np.int64) + 1]
    return Records(
        number, stamp_ns, number[np.array(found, dtype=np.int64) + 1], np.cumsum(sizes, dtype=np.int64)
    )


def _stays(stamp_ns: Ints, at: int) -> bool:
    after = stamp_ns[at + 1 : at + 2 + AFTERWARDS]
    # A record that is merely late is followed by later ones.
    return len(after) > AFTERWARDS and bool(np.all(after < stamp_ns[at]))
