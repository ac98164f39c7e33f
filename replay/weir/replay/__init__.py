# SPDX-License-Identifier: Apache-2.0
"""Converts captures to replay files: what the two ends of a connection wrote, and when."""
