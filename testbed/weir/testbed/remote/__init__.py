# SPDX-License-Identifier: Apache-2.0
"""Programs that run on the hosts: Python 3.9 and its standard library, sent over SSH, never installed."""
