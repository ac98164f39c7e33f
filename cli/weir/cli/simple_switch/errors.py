# SPDX-License-Identifier: Apache-2.0
"""Errors in commands."""

from __future__ import annotations


class CommandError(Exception):
    """A command that cannot be carried out; it is printed after `Error:`."""

    prefix = "Error:"


class KeyFieldError(CommandError):
    """A match field that cannot be read."""

    prefix = "Invalid match key:"


class RuntimeDataError(CommandError):
    """An action argument that cannot be read."""

    prefix = "Invalid runtime data:"
