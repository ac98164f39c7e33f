# SPDX-License-Identifier: Apache-2.0
"""Makes a command that runs another one as an ordinary user who may read this checkout, wherever it is.

Only root can use it. In a private mount namespace, a folder that others may not enter (such as /root) is
replaced by one with nothing but the wanted folders, at the same paths.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

NOBODY = 65534
_OTHERS_ENTER = 0o001
_SCRIPT = """
set -e
hold=/mnt # any folder that exists everywhere and is not wanted
mount -t tmpfs tmpfs "$hold"
covered=$1; shift
wanted=()
while [ "$1" != -- ]; do wanted+=("$1"); shift; done
shift
n=0
for folder in "${wanted[@]}"; do
    mkdir "$hold/$n"
    mount --bind "$folder" "$hold/$n"
    n=$((n + 1))
done
mount -t tmpfs -o mode=755 tmpfs "$covered"
n=0
for folder in "${wanted[@]}"; do
    mkdir -p "$folder"
    mount --bind "$hold/$n" "$folder"
    n=$((n + 1))
done
exec "$@"
"""


def as_ordinary_user(root: Path) -> tuple[str, ...]:
    """The command in front of another one; `root` is the checkout."""
    become = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
    needed = _outermost(path.resolve() for path in (root, Path(sys.prefix), Path(sys.base_prefix)))
    by_closed: dict[Path, list[Path]] = {}
    for path in needed:
        closed = _closed(path)
        if closed is not None:
            by_closed.setdefault(closed, []).append(path)
    command: tuple[str, ...] = ()
    for closed, wanted in by_closed.items():
        uncover = ("bash", "-c", _SCRIPT, "bash", str(closed), *map(str, wanted), "--")
        command = (*command, *uncover)
    return (*(("unshare", "--mount", "--") if command else ()), *command, *become)


def _outermost(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(other) for other in found):
            found.append(path)
    return found


def _closed(path: Path) -> Path | None:
    """The first folder on the way to a path that others may not enter; None if there is none."""
    folders = [*reversed(path.parents), path]
    return next((folder for folder in folders if not folder.stat().st_mode & _OTHERS_ENTER), None)
