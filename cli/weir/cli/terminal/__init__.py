# SPDX-License-Identifier: Apache-2.0
"""Progress and tables on the terminal, for runs and campaigns."""
