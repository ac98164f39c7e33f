# SPDX-License-Identifier: Apache-2.0
"""What the tests of the switch in virtual time share."""
