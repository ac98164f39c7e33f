# SPDX-License-Identifier: Apache-2.0
"""What the PTF tests stand on: runs, switches, entities, packets and what is expected of them."""
