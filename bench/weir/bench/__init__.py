# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: programs with a peer in the same run and a ratio as the result."""
