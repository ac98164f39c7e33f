# SPDX-License-Identifier: Apache-2.0
"""Kernels that are shell scripts: they print on the consoles that their arguments name, as a guest would."""

from __future__ import annotations

from pathlib import Path

_HEAD = """\
#!/bin/sh
for word; do
    case $word in
        con1=null,fd:*) errors=${word##*:} ;;
        con2=null,fd:*) lines=${word##*:} ;;
    esac
done
say() { echo "$1" > "/proc/$$/fd/$lines"; }
complain() { echo "$1" > "/proc/$$/fd/$errors"; }
"""


def make_kernel(path: Path, script: str) -> Path:
    """Write a kernel; `say` prints on the program's stdout, `complain` on its stderr, echo on the console."""
    path.write_text(_HEAD + script)
    path.chmod(0o755)
    return path
