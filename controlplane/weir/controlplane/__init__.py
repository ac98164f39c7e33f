# SPDX-License-Identifier: Apache-2.0
"""From an experiment file to a configured switch, and back to what the switch counted."""
