# SPDX-License-Identifier: Apache-2.0
"""Problems of a config file: location, message and valid values, one line each, reported all together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Location = tuple[str | int, ...]
"""Path of a key from the top of the file, in pydantic's form: ("flows", 0, "from")."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of the key or value at ``location``."""

    location: Location
    message: str
    depends_on: tuple[Location, ...] = field(default=())
    """Other keys whose values led to the problem."""


class ConfigError(ValueError):
    """A config that cannot be used; each of ``lines`` is ``file:line: key: what is wrong; valid: …``."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Keep all lines; the message is all of them."""
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def key_text(location: Location) -> str:
    """A location as text: ``phases[0].policers[1].rate``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def nearest(word: str, valid: Iterable[str]) -> str:
    """A hint at the valid word most similar to ``word``; empty if none is similar."""
    close = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def one_of(valid: Iterable[str]) -> str:
    """The end of a message that lists the valid values."""
    return f"valid: {', '.join(valid) or 'none'}"


def known(
    name: str, names: Sequence[str], what: str, location: Location, among: Location
) -> Iterator[Problem]:
    """A problem unless ``name`` is one of ``names``, which the file defines at ``among``."""
    if name not in names:
        message = f"no {what} {name!r}{nearest(name, names)}; {one_of(names)}"
        yield Problem(location, message, depends_on=(among,))


def unique(names: Sequence[str], location: Location, what: str) -> Iterator[Problem]:
    """A problem for each item of the list at ``location`` whose name an earlier item has."""
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            yield Problem(
                (*location, index, "name"),
                f"second {what} named {name!r} (the first is {location[-1]}[{first[name]}]); "
                "valid: a unique name",
                depends_on=((*location, first[name], "name"),),
            )
        first.setdefault(name, index)
