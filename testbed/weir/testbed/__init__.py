# SPDX-License-Identifier: Apache-2.0
"""Hosts that are reached over SSH: their inventory, their checks, and changes that are always undone."""
