# SPDX-License-Identifier: Apache-2.0
"""`python -m weir.cli.simple_switch`."""

from weir.cli.simple_switch.main import main

main()
