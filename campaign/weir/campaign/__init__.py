# SPDX-License-Identifier: Apache-2.0
"""Campaigns: one experiment over a matrix of values, repeated, resumed, and shown on one page."""
