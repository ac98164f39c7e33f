# SPDX-License-Identifier: Apache-2.0
"""Error of recorded traffic."""


class ReplayError(ValueError):
    """A capture cannot become a replay file; the text names the capture and says what would be valid."""
