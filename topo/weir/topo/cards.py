# SPDX-License-Identifier: Apache-2.0
"""Network cards of the machine, which the sandbox takes for a run and gives back.

A card that a killed run has not given back returns to the machine's first network namespace with the sandbox
(network_namespaces(7)), with its offloads off; a virtual one ends with it. Moving a card takes its addresses
away, so it must have none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

from weir.topo.hosts import TestbedError
from weir.topo.linux import in_network_namespace
from weir.topo.process import ProcessError, run_tool
from weir.topo.testbed import active_offloads, turn_offloads_on

_T = TypeVar("_T")


def card_problem(name: str) -> str | None:
    """The reason why this process's network cannot hand over an interface; None if it can."""
    found = {link["ifname"]: link for link in json.loads(run_tool("ip", "-json", "address", "show"))}
    if name not in found:
        return f"this machine has no interface {name}; valid: {', '.join(found)}"
    if "LOOPBACK" in found[name]["flags"]:
        return f"{name} is the loopback; valid: a network card"
    addresses = [address["local"] for address in found[name]["addr_info"] if address["scope"] != "link"]
    if addresses:
        return (
            f"{name} has addresses ({', '.join(addresses)}), which a run would take away; "
            f"valid: an interface without, such as after `ip address flush dev {name}`"
        )
    return None


@dataclass(frozen=True)
class _Card:
    """A card as it was before it was taken."""

    name: str
    is_up: bool
    offloads: tuple[str, ...]


class Cards:
    """Cards of the sandbox's origin, in the sandbox as long as the context."""

    def __init__(self, names: Sequence[str], origin: int) -> None:
        """Take them all or none; `origin` is the namespace's descriptor. Raises TestbedError."""
        self._origin = origin
        self._taken: list[_Card] = []
        try:
            for name in names:
                card = self._in_origin(name, partial(_as_it_is, name))
                self._in_origin(name, partial(_move, name, f"/proc/{os.getpid()}/ns/net"))
                self._taken.append(card)
        except BaseException:
            self._give_back()
            raise

    def __enter__(self) -> Self:
        """Nothing: the constructor has taken them."""
        return self

    def __exit__(self, *_: object) -> None:
        """Give them back. Raises TestbedError, after all that can be given back are."""
        self._give_back()

    def _give_back(self) -> None:
        problems = []
        while self._taken:
            card = self._taken.pop()
            try:
                turn_offloads_on(card.name, card.offloads)
                _move(card.name, f"/proc/{os.getpid()}/fd/{self._origin}")
                if card.is_up:
                    up = partial(run_tool, "ip", "link", "set", "dev", card.name, "up")
                    self._in_origin(card.name, up)
            except (TestbedError, ProcessError) as error:
                problems.append(f"interface {card.name} was not given back as it was: {error}")
        if problems:
            raise TestbedError("; ".join(problems))

    def _in_origin(self, name: str, action: Callable[[], _T]) -> _T:
        try:
            return in_network_namespace(self._origin, action)
        except (ProcessError, OSError) as error:
            raise TestbedError(
                f"interface {name} cannot be moved between the machine and the run: {error}; "
                "valid: root, and an interface of this machine"
            ) from error


def _as_it_is(name: str) -> _Card:
    (link,) = json.loads(run_tool("ip", "-json", "link", "show", "dev", name))
    shown = run_tool("ethtool", "--json", "-k", name)
    return _Card(name, "UP" in link["flags"], tuple(active_offloads(shown)))


def _move(name: str, to: str) -> None:
    run_tool("ip", "link", "set", "dev", name, "netns", to)
