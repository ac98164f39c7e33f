# SPDX-License-Identifier: Apache-2.0
"""Hatchling's build hook: adds the compiled programs and extension modules to the wheel, and tags it.

An editable installation has none of them: `make setup` builds them into the environment.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PYTHON_TAG = "cp311-abi3"
"""CPython 3.11 and newer: pyo3's feature abi3-py311 in the extension modules' Cargo.toml."""
_DESCRIPTORS = "softswitch/p4runtime/p4runtime.binpb"


class WheelHook(BuildHookInterface[Any]):
    """Named by pyproject.toml for the wheel and for the source distribution."""

    _built: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and add the results to `build_data`. Raises CalledProcessError when that fails."""
        root = Path(self.root)
        if self.target_name == "sdist":
            if not (root / _DESCRIPTORS).is_file():
                raise FileNotFoundError(f"{_DESCRIPTORS} is missing; make it with: make setup")
            return
        if version == "editable":
            return
        # A folder per build, because two builds may run at the same time.
        (root / "target").mkdir(exist_ok=True)
        self._built = Path(tempfile.mkdtemp(prefix="wheel-", dir=root / "target"))
        programs, modules = self._built / "programs", self._built / "modules"
        build = [sys.executable, str(root / "tools" / "build_rust.py"), "--strip"]
        subprocess.run([*build, "--programs", str(programs), "--modules", str(modules)], check=True)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"{_PYTHON_TAG}-{platform}"
        build_data["shared_scripts"] |= {str(file): file.name for file in programs.iterdir()}
        build_data["force_include"] |= {str(file): file.name for file in modules.iterdir()}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled files, which are in the wheel."""
        if self._built is not None:
            shutil.rmtree(self._built)
