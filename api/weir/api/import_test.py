# SPDX-License-Identifier: Apache-2.0
"""`import weir` is cheap, and its names are those that type checkers see."""

from __future__ import annotations

import subprocess
import sys

import pytest

import weir

HEAVY = (
    "IPython",
    "numpy",
    "pandas",
    "plotly",
    "polars",
    "pyarrow",
    "pydantic",
    "weir_core",
    "weir_softswitch",
)


@pytest.mark.parametrize("module", ["weir", "weir.cli.main", "weir.rundir.directory"])
def test_importing_loads_no_library_of_the_api(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "weir" in loaded
    assert sorted(loaded & {*HEAVY, "weir.api"}) == []


def test_each_name_is_found_and_documented() -> None:
    for name in weir.__all__:
        value = getattr(weir, name)
        assert value.__doc__, name
        assert name in dir(weir)
    with pytest.raises(AttributeError, match="no attribute 'open_runs'"):
        weir.open_runs  # type: ignore[attr-defined]  # noqa: B018


def test_the_switch_is_the_one_in_virtual_time() -> None:
    pytest.importorskip("weir_softswitch", reason="weir_softswitch is not built; make setup builds it")
    switch = weir.Switch({1: "", 2: "delay=3ms"})
    assert (switch.now_ns, switch.run_until(5), switch.now_ns) == (0, [], 5)
