# SPDX-License-Identifier: Apache-2.0
"""Faults in each process of a run and of a campaign, at random moments; see chaos/README.md."""
