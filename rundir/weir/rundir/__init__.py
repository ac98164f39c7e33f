# SPDX-License-Identifier: Apache-2.0
"""The run directory: its file names, and its JSON files as models. Imports no other part of weir."""
