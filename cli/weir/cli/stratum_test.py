# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.cli.main import run_cli
from weir.cli.stratum import CHASSIS_NAME

EXPERIMENT = """\
name: chip
switch: {target: tofino2}
hosts: {a: {port: 132}, b: {port: 140, rate: 1 Gbit/s}}
flows: [{name: f, from: a, to: b, duration: 1 s}]
"""


@pytest.fixture(name="config")
def _config(tmp_path: Path) -> Path:
    path = tmp_path / "chip.yaml"
    path.write_text(EXPERIMENT)
    return path


def test_the_chassis_configuration_has_ports_and_queues(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["stratum", str(config), "--out", str(out), "--panel", "a=1", "--panel", "b=2/1"]
    assert run_cli([*words, "--speed", "25 Gbit/s"]) == 0
    text = (out / CHASSIS_NAME).read_text()
    assert text.count("speed_bps: 25000000000") == 2
    assert "rate_bps: 1000000000" in text


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--panel", "c=1"], "weir: --panel 'c=1'; valid: HOST=PORT or HOST=PORT/CHANNEL, of a, b"),
        (["--panel", "a=1"], "weir: no front-panel port for b; valid: one for each host, or none"),
        (["--compiled", "nowhere"], "weir: nowhere: is no folder; valid: a folder"),
        (["--compiled", "empty"], "weir: empty: has none; valid: the compiler's .conf file, once"),
    ],
)
def test_an_error_is_one_line_and_nothing_is_written(
    config: Path,
    tmp_path: Path,
    words: list[str],
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    out = tmp_path / "out"
    assert run_cli(["stratum", str(config), "--out", str(out), *words]) in (2, 6)
    assert capsys.readouterr().err.splitlines() == [line]
    assert not out.exists()


def test_an_experiment_for_another_switch_is_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(EXPERIMENT.replace("tofino2", "bmv2").replace(", rate: 1 Gbit/s", ""))
    assert run_cli(["stratum", str(config), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"weir: {config}: switch.target is bmv2; valid: tofino, tofino2\n"
