# SPDX-License-Identifier: Apache-2.0
"""Build weir's programs and extension modules with cargo, and copy them into folders.

Usage: python tools/build_rust.py [--programs DIR] [--modules DIR] [--strip] [--for-runs] [--profile NAME]

By default into the environment of this Python. `make setup` and the wheel's build (`wheel_hook.py`) both call
this, so that packages and features are listed once. Needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("weir-switch", "weir-collector")
MODULES = ("weir_core", "weir_softswitch")
NOT_FOR_RUNS = "weir_softswitch"
"""The switch in virtual time: `weir run` does not need it."""


def build(modules: Sequence[str], profile: str) -> dict[str, Path]:
    """Compile the programs and `modules` in one call, so that shared crates are compiled once.

    Returns target name → file. Raises CalledProcessError when cargo fails, FileNotFoundError without cargo.
    """
    command = ["cargo", "build", "--locked", "--message-format=json-render-diagnostics", "--profile", profile]
    packages = [module.replace("_", "-") for module in modules]
    command += [word for package in (*PROGRAMS, *packages) for word in ("-p", package)]
    command += ["--features", ",".join(f"{package}/python" for package in packages)]
    # pyo3's variables: an extension gets Python's symbols from the interpreter that loads it. It is the same
    # for each interpreter, so nothing is compiled again for another environment.
    environment = {**os.environ, "PYO3_BUILD_EXTENSION_MODULE": "1", "PYO3_NO_PYTHON": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    built = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["target"]["name"] in PROGRAMS + MODULES:
            name = message["target"]["name"]
            for file in map(Path, message["filenames"]):
                if file.suffix == ".so" or file.name == name:
                    built[name] = file
    return built


def install(built: Path, to: Path, *, strip: bool) -> None:
    """Copy a built file to `to`; without debug information if `strip`, which keeps the names of functions.

    Replaced in one step: a running program stays whole, and cannot be overwritten.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    temporary = to.with_name(f".{to.name}.{os.getpid()}")
    shutil.copy(built, temporary)
    if strip:
        # Of binutils, as is the linker that cargo needs.
        subprocess.run(["strip", "--strip-debug", str(temporary)], check=True)
    temporary.replace(to)


def main(arguments: list[str]) -> int:
    """Build and install; returns the exit code."""
    parser = argparse.ArgumentParser(description="Build weir's programs and extension modules.")
    parser.add_argument("--programs", type=Path, default=Path(sysconfig.get_path("scripts")))
    parser.add_argument("--modules", type=Path, default=Path(sysconfig.get_path("platlib")))
    parser.add_argument("--strip", action="store_true", help="without debug information")
    parser.add_argument("--for-runs", action="store_true", help=f"without {NOT_FOR_RUNS}")
    parser.add_argument("--profile", default="release", help="cargo's (default: release)")
    options = parser.parse_args(arguments)
    modules = [name for name in MODULES if not (options.for_runs and name == NOT_FOR_RUNS)]
    try:
        built = build(modules, options.profile)
    except FileNotFoundError:
        print("cargo is not on PATH; weir's programs need Rust: https://www.rust-lang.org/tools/install")
        return 1
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    targets = {name: options.programs / name for name in PROGRAMS}
    targets |= {name: options.modules / f"{name}.abi3.so" for name in modules}
    for name, target in targets.items():
        install(built[name], target, strip=options.strip)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
