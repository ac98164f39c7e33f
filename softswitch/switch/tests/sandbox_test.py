# SPDX-License-Identifier: Apache-2.0
"""The sandbox serves ordinary users, who have no sbin on their PATH."""

from pathlib import Path

import pytest
from sandbox import refusal, run_sandboxed


def test_programs_of_the_system_are_found_without_sbin_on_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if reason := refusal():
        pytest.skip(reason)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    script = tmp_path / "script.py"
    script.write_text("import shutil\nprint(shutil.which('sysctl'), shutil.which('ethtool'))\n")
    ended = run_sandboxed(script, time_limit_s=60)
    assert ended.returncode == 0, ended.stderr
    assert "None" not in ended.stdout
