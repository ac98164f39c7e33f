# SPDX-License-Identifier: Apache-2.0
"""Published studies, which a campaign's page compares with its runs."""

STUDIES = {
    "bbr-dominant": "weir.campaign.studies.bbr_dominant",
    "bbr-ml": "weir.campaign.studies.bbr_ml",
    "bbr-or-cubic-table": "weir.campaign.studies.bbr_or_cubic_table",
    "bbr-test-cases": "weir.campaign.studies.bbr_test_cases",
    "buffer-class": "weir.campaign.studies.buffer_class",
    "policed-transport": "weir.campaign.studies.policed_transport",
    "wehey-bbr": "weir.campaign.studies.wehey_bbr",
    "when-to-use-bbr": "weir.campaign.studies.when_to_use_bbr",
}
"""Name in campaign files → module, whose function `sections` returns the study's part of the page."""
