# SPDX-License-Identifier: Apache-2.0
"""Error of a campaign's folder, of the runs in it, and of the workers that make them."""


class CampaignError(ValueError):
    """The campaign cannot be worked on; the text says why and what would be valid."""
