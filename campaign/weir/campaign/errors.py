# SPDX-License-Identifier: Apache-2.0
"""The error of a campaign's folder, its runs and its workers."""


class CampaignError(ValueError):
    """The campaign cannot be run; the text says why and what would be valid."""
