# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime switch whose data plane is the packet-by-packet model of a Tofino: `tofino_test_harness`."""
