# SPDX-License-Identifier: Apache-2.0
"""Configures a switch from an experiment file over P4Runtime, and reads back its counters."""
