# SPDX-License-Identifier: Apache-2.0
import zipfile
from pathlib import Path

import pytest

from weir.campaign.executors import cluster


def packed(folder: Path, **members: bytes) -> Path:
    path = folder / "run.zip"
    (folder / "run").mkdir()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_run_is_unpacked_whole(tmp_path: Path) -> None:
    cluster.unpack(packed(tmp_path, a=b"1", b=b"2"), tmp_path / "run")
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == {"a": b"1", "b": b"2"}


def test_more_files_than_a_run_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_FILES_OF_A_RUN", 1)
    with pytest.raises(ValueError, match="2 files; valid: at most 1"):
        cluster.unpack(packed(tmp_path, a=b"1", b=b"2"), tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())


def test_more_bytes_than_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = cluster.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(cluster.shutil, "disk_usage", lambda _: usage._replace(free=1_000_000))
    with pytest.raises(ValueError, match=r"1000001 bytes unpacked; 1000000 are free"):
        cluster.unpack(packed(tmp_path, a=bytes(1_000_001)), tmp_path / "run")
    assert not list((tmp_path / "run").iterdir())


def test_a_member_outside_of_the_folder_stays_inside(tmp_path: Path) -> None:
    cluster.unpack(packed(tmp_path, **{"../../outside": b"x"}), tmp_path / "run")
    assert not (tmp_path.parent / "outside").exists()
    assert (tmp_path / "run" / "outside").read_bytes() == b"x"
