# SPDX-License-Identifier: Apache-2.0
"""Telemetry in Python: captures, and the report as a layer of scapy."""
