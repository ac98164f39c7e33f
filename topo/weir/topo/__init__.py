# SPDX-License-Identifier: Apache-2.0
"""Hosts, links, traffic and capture of one experiment, in network namespaces without root."""
