# SPDX-License-Identifier: Apache-2.0
"""The error of exports and imports."""


class ArchiveError(ValueError):
    """A run cannot be exported, or an archive cannot be imported; the text says which and what is valid."""
