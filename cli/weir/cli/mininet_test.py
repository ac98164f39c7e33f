# SPDX-License-Identifier: Apache-2.0
"""The example of a testbed in Mininet; see `mininet_scenario.py`."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from weir.topo.tools import search_path
from weir_tests.topo.sandboxed import result_of


@pytest.mark.skipif(os.geteuid() != 0, reason="user: Mininet needs root")
def test_a_run_on_hosts_of_mininet_explains_every_packet(tmp_path: Path) -> None:
    for name, package in {"mn": "mininet", "sshd": "openssh-server"}.items():
        if shutil.which(name, path=search_path()) is None:
            pytest.skip(f"not installed: {name}; sudo apt-get install {package}")
    done = result_of("weir_tests.cli.mininet_scenario", tmp_path)
    assert done["code"] == 0, done["stderr"]
    result = json.loads(done["stdout"])
    assert result["valid"], result["invalid_reasons"]
    assert result["law"]["unexplained"] == 0
    assert result["law"]["reported_drops"] == result["law"]["missing"] > 20
