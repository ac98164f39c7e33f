# SPDX-License-Identifier: Apache-2.0
"""Published studies: what a campaign's page sets beside the numbers of its runs."""

STUDIES = {
    "bbr-dominant": "weir.campaign.studies.bbr_dominant",
    "bbr-or-cubic-table": "weir.campaign.studies.bbr_or_cubic_table",
    "buffer-class": "weir.campaign.studies.buffer_class",
    "wehey-bbr": "weir.campaign.studies.wehey_bbr",
    "when-to-use-bbr": "weir.campaign.studies.when_to_use_bbr",
}
"""The module of each study by the name that campaign files use; its `sections` makes its part of the page."""
