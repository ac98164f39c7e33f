# SPDX-License-Identifier: Apache-2.0
"""Replaces `$name` and `${name}` in the strings of a parsed file by variables' values; `$$` is a dollar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from weir.controlplane.config import Location, Problem, nearest, one_of

_WHOLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_ANY = re.compile(r"\$(?:(?P<escaped>\$)|(?P<bare>\w+)|\{(?P<braced>\w+)\})")
MAX_DEPTH = 16
"""Depth to which variables may refer to variables."""


def mentioned(node: Any) -> set[str]:
    """The variables that the strings of a parsed file name, whether they exist or not."""
    if isinstance(node, dict | list):
        return set().union(*map(mentioned, node.values() if isinstance(node, dict) else node))
    if not isinstance(node, str):
        return set()
    names = (match["bare"] or match["braced"] for match in _ANY.finditer(node))
    return {name for name in names if name}


class Variables:
    """Values by name. Records the variables used and the problems found during substitution."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Substitute these values."""
        self.values = values
        self.used: set[str] = set()
        self.problems: list[Problem] = []

    def substitute(self, node: Any, location: Location, within: tuple[str, ...] = ()) -> Any:
        """The tree with every variable replaced.

        A string that is one variable becomes its value, of any type. Within a longer string the value is
        converted to text; a list or mapping is a problem there. `within` are the variables whose value it is.
        """
        if isinstance(node, dict):
            return {key: self.substitute(value, (*location, key), within) for key, value in node.items()}
        if isinstance(node, list):
            return [self.substitute(value, (*location, index), within) for index, value in enumerate(node)]
        if not isinstance(node, str):
            return node
        whole = _WHOLE.fullmatch(node)
        if whole is not None:
            return self._value(whole[1] or whole[2], location, within)

        def text(match: re.Match[str]) -> str:
            if match["escaped"]:
                return "$"
            name = match["bare"] or match["braced"]
            value = self._value(name, location, within)
            if isinstance(value, dict | list):
                message = (
                    f"${name} is not a single value and cannot be part of a string; valid: ${name} alone"
                )
                self.problems.append(Problem(location, message))
                return ""
            return str(value)

        return _ANY.sub(text, node)

    def _value(self, name: str, location: Location, within: tuple[str, ...]) -> Any:
        if name not in self.values:
            message = f"no variable ${name}{nearest(name, self.values)}; {one_of(sorted(self.values))}"
            self.problems.append(Problem(location, message))
            return ""
        if name in within or len(within) >= MAX_DEPTH:
            message = f"${name} refers to itself; valid: variables without a cycle"
            if name not in within:
                message = f"${name} is nested too deep; valid: {MAX_DEPTH} variables in a row"
            self.problems.append(Problem(location, message))
            return ""
        self.used.add(name)
        return self.substitute(self.values[name], location, (*within, name))
