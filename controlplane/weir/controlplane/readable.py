# SPDX-License-Identifier: Apache-2.0
"""Formats table values for people: MAC and IP addresses, prefixes, ranges, and decimal numbers."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address


def show_value(table: str, name: str, value: int) -> str:
    """The value of a match field or action argument; the table and the name determine its format."""
    if name.endswith("_mac") or (table == "forward" and name == "dst"):
        return value.to_bytes(6, "big").hex(":") if value < 1 << 48 else hex(value)
    width = _address_bits(table, name)
    if width and value < 1 << width:
        return str(IPv4Address(value) if width == 32 else IPv6Address(value))
    return str(value)


def show_match(table: str, name: str, value: int, mask: int | None) -> str:
    """A match field as ``name=value``: a prefix or range if the mask is one, else value and mask."""
    if mask is None:
        return f"{name}={show_value(table, name, value)}"
    width = _address_bits(table, name)
    ignored = (mask & -mask) - 1
    above = mask | ignored
    if width and above == (1 << width) - 1:
        return f"{name}={show_value(table, name, value)}/{width - ignored.bit_length()}"
    if not width and mask and above & (above + 1) == 0:
        return f"{name}={value}..{value | ignored}"
    return f"{name}={show_value(table, name, value)}&{mask:#x}"


def _address_bits(table: str, name: str) -> int:
    """Bits of the IP address in this field; 0 if the field is not one."""
    if name not in ("src", "dst") or table == "forward":
        return 0
    return 128 if table.endswith("_ipv6") else 32
