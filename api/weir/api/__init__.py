# SPDX-License-Identifier: Apache-2.0
"""weir's Python API; its names are those of `weir` itself (api/weir/__init__.py)."""
