# SPDX-License-Identifier: Apache-2.0
"""Campaigns: one experiment over a matrix of values, with repeats, resumable, summarised on one page."""
