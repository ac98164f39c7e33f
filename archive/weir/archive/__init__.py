# SPDX-License-Identifier: Apache-2.0
"""Archives of runs for artifact evaluation: an RO-Crate with checksums, written and read again."""
