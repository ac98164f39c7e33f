# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.controlplane.config import ConfigError, load_experiment
from weir.controlplane.shipped import experiment_names, experiments_directory, find_experiment


def test_a_bare_name_is_the_shipped_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_experiment(Path("demo")) == experiments_directory() / "demo.yaml"
    assert load_experiment(find_experiment(Path("demo"))).name == "demo"


def test_a_file_goes_before_a_shipped_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").write_text("")
    assert find_experiment(Path("demo")) == Path("demo")


def test_a_folder_of_that_name_is_not_the_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert find_experiment(Path("demo")) == experiments_directory() / "demo.yaml"


def test_an_unknown_name_is_an_error_that_lists_the_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as error:
        find_experiment(Path("dmo"))
    assert str(error.value) == (
        "dmo: no such file or shipped experiment (did you mean 'demo'?); valid: "
        + ", ".join(experiment_names())
    )


@pytest.mark.parametrize("given", ["no-such-name.yaml", "demo.yaml", "x/demo"])
def test_other_paths_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_experiment(Path(given)) == Path(given)


def test_the_demo_is_shipped() -> None:
    assert {"demo", "wehey-bbr"} <= set(experiment_names())
