# SPDX-License-Identifier: Apache-2.0
"""PTF tests of any P4 program on weir-switch, without root: `python -m weir.ptf --help`."""
