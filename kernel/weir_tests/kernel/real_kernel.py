# SPDX-License-Identifier: Apache-2.0
"""The kernel for tests on real guests: 6.12 of the user's cache (`make kernel`)."""

from __future__ import annotations

import pytest

from weir.kernel.debian import DEBIAN_SERIES
from weir.kernel.errors import KernelInputError
from weir.kernel.store import KernelStore, StoredKernel, kernels_folder


def real_kernel() -> StoredKernel | None:
    """The kernel; None if it was not built."""
    try:
        return KernelStore(kernels_folder()).find(DEBIAN_SERIES)
    except KernelInputError:
        return None


needs_real_kernel = pytest.mark.skipif(
    # A reason that tools/permitted-skips.txt does not permit: Debian has the source.
    real_kernel() is None,
    reason="virtual time: no kernel is built; make kernel",
)
