# SPDX-License-Identifier: Apache-2.0
"""Available memory: the machine's, or what is left of a cgroup's limit if that is less."""

from __future__ import annotations

from pathlib import Path

from weir.topo.memory import available_mb

_MB = 1_048_576


def write(folder: Path, limit: str, used_mb: int, cache_mb: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used_mb * _MB}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cache_mb * _MB}\n")


def available(folder: Path) -> int:
    return available_mb(folder / "meminfo", folder / "cgroup", folder / "groups")


def test_the_least_of_machine_and_cgroups_is_available(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable:    4096000 kB\n")
    assert available(tmp_path) == 4000
    (tmp_path / "cgroup").write_text("0::/outer/inner\n")
    write(tmp_path / "groups" / "outer" / "inner", "max", 10, 0)
    assert available(tmp_path) == 4000
    write(tmp_path / "groups" / "outer", str(1000 * _MB), 500, 200)
    assert available(tmp_path) == 700
    write(tmp_path / "groups" / "outer" / "inner", str(100 * _MB), 500, 0)
    assert available(tmp_path) == 0


def test_this_machine_has_memory() -> None:
    assert available_mb() > 0
