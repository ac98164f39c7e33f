# SPDX-License-Identifier: Apache-2.0
"""Published studies: what a campaign's page sets beside the numbers of its runs."""

STUDIES = {"wehey-bbr": "weir.campaign.studies.wehey_bbr"}
"""The module of each study by the name that campaign files use; its `sections` makes its part of the page."""
