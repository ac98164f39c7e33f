# SPDX-License-Identifier: Apache-2.0
"""One run: its checks, its directory, its phases and their traffic, and the record of it all."""
