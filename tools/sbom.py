# SPDX-License-Identifier: Apache-2.0
"""Write the software bills of materials (CycloneDX) of the Rust programs and of the Python package.

Usage: python tools/sbom.py --python CYCLONEDX_PY --rust CARGO_CYCLONEDX FOLDER

What tests and developers need is in neither.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {"weir-switch": "softswitch/switch", "weir-collector": "telemetry/collector"}
MODULES = {"weir-core": "analysis/core", "weir-softswitch": "softswitch/python"}


def python_requirements() -> list[str]:
    """NAME==VERSION of everything that `pip install weir` brings, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--report", "-", "--constraint", str(ROOT / "constraints.txt"), *project["dependencies"]]
    report = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    found = (item["metadata"] for item in report["install"])
    return sorted(f"{metadata['name']}=={metadata['version']}" for metadata in found)


def write_python(cyclonedx_py: Path, to: Path) -> None:
    """The bill of the Python package."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text("\n".join(python_requirements()) + "\n")
        command = [str(cyclonedx_py), "requirements", str(requirements), "--output-reproducible"]
        command += ["--pyproject", str(ROOT / "pyproject.toml"), "--output-file", str(to)]
        subprocess.run(command, check=True)


def write_rust(cargo_cyclonedx: Path, to: Path) -> None:
    """The bill of each program and extension module, by cargo-cyclonedx in a copy of the sources."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "weir"
        files = subprocess.run(
            ["git", "ls-files", "-z", "*.toml", "*.rs", "Cargo.lock"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.split("\0")
        for name in filter(None, files):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
        command = [str(cargo_cyclonedx), "cyclonedx", "--format", "json", "--all-features", "--quiet"]
        # The same bytes each time, unless the dependencies change.
        environment = os.environ | {"SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0")}
        subprocess.run(command, cwd=copy, env=environment, check=True)
        for name, where in (PROGRAMS | MODULES).items():
            bill = (copy / where / f"{name}.cdx.json").read_text()
            (to / f"{name}.cdx.json").write_text(bill.replace(f"path+file://{copy}/", "path+file:///weir/"))


def main() -> None:
    """Write them, and say what they hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--rust", type=Path, required=True)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    write_python(given.python.resolve(), given.folder / "weir-python.cdx.json")
    write_rust(given.rust.resolve(), given.folder)
    for file in sorted(given.folder.glob("*.cdx.json")):
        bill = json.loads(file.read_text())
        print(f"{file}: {len(bill['components'])} components")


if __name__ == "__main__":
    main()
