# SPDX-License-Identifier: Apache-2.0
"""Who makes the runs of a campaign."""
