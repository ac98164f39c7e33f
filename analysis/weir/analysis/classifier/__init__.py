# SPDX-License-Identifier: Apache-2.0
"""A classifier of bottleneck buffers by the features of a BBR flow: its file, its training, its accuracy."""
