# SPDX-License-Identifier: Apache-2.0
"""Hides pandas from pyarrow, which loads it wherever it is installed: half a second in a guest.

For programs, which do not need it; never from a library, whose user may.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas' in weir's programs", name=fullname)
        return None


def hide_pandas() -> None:
    """Make `import pandas` fail in this process from now on, unless it has been imported."""
    sys.meta_path.insert(0, _NoPandas())
