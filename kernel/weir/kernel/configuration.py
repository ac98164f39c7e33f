# SPDX-License-Identifier: Apache-2.0
"""The configuration of a kernel: weir's options, all congestion controls of its source, a check of both."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from weir.kernel.errors import KernelError

FRAGMENT = Path(__file__).with_name("config.fragment")
HZ = 1000
"""UML's HZ is not for the user to choose, so `kconfig_with_hz` defines it before its own definition does."""

_QUEUES = ("SFQ", "RED", "CODEL", "FQ_CODEL", "CAKE", "PIE", "FQ_PIE", "DUALPI2")
"""Queueing disciplines for receive queues, each taken if the source has it."""

_REQUEST = re.compile(r"(CONFIG_\w+)=(\S+)")
_CONGESTION = re.compile(r"^config (TCP_CONG_\w+)\n(?:[ \t]+.*\n)*?[ \t]+tristate\b", re.MULTILINE)
_SYMBOL = re.compile(r"^\s*(?:menu)?config (\w+)\s*$", re.MULTILINE)


def read_fragment(path: Path = FRAGMENT) -> dict[str, str]:
    """The options that weir needs, with their values: CONFIG_HOSTFS → y."""
    options = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            match = _REQUEST.fullmatch(line)
            assert match is not None, f"{path}: {line}"
            options[match[1]] = match[2]
    return options


def congestion_options(tree: Path) -> dict[str, str]:
    """The options of all congestion controls that the source defines."""
    text = (tree / "net" / "ipv4" / "Kconfig").read_text(encoding="utf-8", errors="replace")
    return {f"CONFIG_{name}": "y" for name in _CONGESTION.findall(text)}


def queue_options(tree: Path) -> dict[str, str]:
    """The options of those of `_QUEUES` that the source defines."""
    defined = set(_SYMBOL.findall(_text(tree / "net" / "sched" / "Kconfig")))
    return {f"CONFIG_NET_SCH_{name}": "y" for name in _QUEUES if f"NET_SCH_{name}" in defined}


def requested_options(tree: Path) -> dict[str, str]:
    """All options of weir's kernel of this source."""
    return read_fragment() | congestion_options(tree) | queue_options(tree) | {"CONFIG_HZ": str(HZ)}


def as_config(options: dict[str, str]) -> str:
    """Options as lines of a .config."""
    return "".join(f"{name}={value}\n" for name, value in options.items())


def kconfig_with_hz(tree: Path) -> str:
    """The top Kconfig of the source, with `HZ` defined first: of several defaults the first one counts."""
    text = (tree / "Kconfig").read_text(encoding="utf-8")
    rest = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("mainmenu"))
    return f'mainmenu "weir"\n\nconfig HZ\n\tint\n\tdefault {HZ}\n\n{rest}'


def set_options(config: str) -> dict[str, str]:
    """The options that a .config sets."""
    lines = (line.partition("=") for line in config.splitlines() if line.startswith("CONFIG_"))
    return {name: value for name, _, value in lines}


def check_options(requested: dict[str, str], config: str, tree: Path) -> None:
    """Raise KernelError with the requested options that `config`, made from the source, does not have."""
    made = set_options(config)
    missing = [name for name, value in requested.items() if made.get(name) != value]
    if not missing:
        return
    known = symbols(tree)
    unknown = [name for name in missing if name.removeprefix("CONFIG_") not in known]
    unmet = [name for name in missing if name not in unknown]
    parts = []
    if unknown:
        parts.append(f"it does not define {', '.join(unknown)}")
    if unmet:
        values = ", ".join(f"{name}={requested[name]}" for name in unmet)
        parts.append(f"its dependencies do not allow {values}")
    raise KernelError(f"the source lacks options that weir needs: {'; '.join(parts)}")


def symbols(tree: Path) -> set[str]:
    """The names of all options that the source's Kconfig files define."""
    return {name for path in _kconfig_files(tree) for name in _SYMBOL.findall(_text(path))}


def _kconfig_files(tree: Path) -> Iterable[Path]:
    return (path for path in tree.rglob("Kconfig*") if path.is_file())


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
