# SPDX-License-Identifier: Apache-2.0
"""The run directory: its files, and its manifest as types. Imports no other part of weir."""
