# SPDX-License-Identifier: Apache-2.0
"""Builds User-Mode Linux kernels whose time is virtual, keeps them by name, and boots them."""
