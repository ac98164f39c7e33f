# SPDX-License-Identifier: Apache-2.0
"""The error of captures that cannot be replayed."""


class ReplayError(ValueError):
    """A capture cannot be converted to a replay file; the text names it and says what would be valid."""
