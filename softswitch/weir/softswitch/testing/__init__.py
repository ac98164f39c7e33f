# SPDX-License-Identifier: Apache-2.0
"""Helpers for the tests of the switch in virtual time."""
