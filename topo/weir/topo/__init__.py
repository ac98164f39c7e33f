# SPDX-License-Identifier: Apache-2.0
"""Hosts, links, traffic and captures of an experiment, in network namespaces without root."""
