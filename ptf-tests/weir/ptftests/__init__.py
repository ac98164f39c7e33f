# SPDX-License-Identifier: Apache-2.0
"""The library of the PTF tests: runs, switches, entities, packets and expected reports."""
