# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from weir.rundir.digest import digest_of
from weir.rundir.errors import RunFileError


def make_run(folder: Path, *, commit: str = "abc", capture: bytes = b"packets") -> Path:
    (folder / "pcap").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "pcap" / "client.pcap").write_bytes(capture)
    (folder / "telemetry.parquet").write_bytes(b"reports")
    (folder / "logs" / "weir-switch.log").write_text(str(folder))
    (folder / "result.json").write_text(json.dumps({"commit": commit, "weir_version": "1", "sent": 5}))
    return folder


def test_the_total_is_what_sha256sum_says_of_the_list_of_files(tmp_path: Path) -> None:
    found = digest_of(make_run(tmp_path / "run"))
    assert list(found.files) == ["pcap/client.pcap", "result.json", "telemetry.parquet"]
    assert found.files["pcap/client.pcap"] == hashlib.sha256(b"packets").hexdigest()
    listed = "".join(f"{digest}  {path}\n" for path, digest in found.files.items())
    assert found.total == hashlib.sha256(listed.encode()).hexdigest()


def test_commit_logs_and_folder_do_not_count(tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "a"), make_run(tmp_path / "b" / "c", commit="def")
    assert digest_of(first).total == digest_of(second).total


def test_a_file_that_differs_or_is_missing_is_named(tmp_path: Path) -> None:
    first, second = make_run(tmp_path / "a"), make_run(tmp_path / "b", capture=b"other")
    assert digest_of(first).differing(digest_of(second)) == ["pcap/client.pcap"]
    (first / "telemetry.parquet").unlink()
    assert digest_of(first).differing(digest_of(second)) == ["pcap/client.pcap", "telemetry.parquet"]
    assert digest_of(first).total != digest_of(second).total


def test_a_run_that_was_not_analysed_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").touch()
    with pytest.raises(RunFileError, match=r"result\.json: not found; .*, by weir report"):
        digest_of(tmp_path)
