# SPDX-License-Identifier: Apache-2.0
"""The summary of a campaign, `summary.json`: the figures of its page for programs, and their comparison."""
