# SPDX-License-Identifier: Apache-2.0
"""What `weir export` takes, refuses and writes."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import subprocess
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from weir.archive import write
from weir.archive.contents import contents_of
from weir.archive.errors import ArchiveError
from weir.archive.private import Identity
from weir.archive.record import License, Origin
from weir.archive.write import Written, default_name, write_archive
from weir.rundir import whole_files
from weir_tests.archive.made_up_run import make_campaign, make_run

ORIGIN = Origin("0.1.0", "0123456789ab", datetime(2026, 11, 24, tzinfo=UTC))


def export(out: Path, *runs: Path, unfinished: bool = False) -> Written:
    contents = contents_of(runs, unfinished=unfinished)
    return write_archive(contents, out, ORIGIN, License("CC-BY-4.0"), identity=Identity(("build-box-17",)))


def test_the_readme_lists_the_files_that_the_runs_have_and_no_others(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path / "runs" / "grid", "5_r001", "10_r001")
    (campaign / "10_r001" / "tuning.parquet").touch()
    export(tmp_path / "a.zip", campaign)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        readme = archive.read("README.md").decode()
    listed = re.findall(r"^\| `([^`/]+(?:/\*[^`]*)?)` \|", readme, re.MULTILINE)
    assert listed == [
        *("config.yaml", "manifest.json", "pcap/*", "telemetry.parquet", "collector.json", "tuning.parquet"),
        *("result.json", "report.html", "logs/*.json", "logs/*", "campaign.yaml", "index.html", "data/*"),
    ]


def test_an_archive_has_every_file_of_the_run_with_its_checksum(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    (run / "pcap" / "other.pcap.part").touch()
    (run / "manifest.json.spare").touch()
    written = export(tmp_path / "a.zip", run)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "x")
    names = {
        path.relative_to(tmp_path / "x").as_posix() for path in (tmp_path / "x").rglob("*") if path.is_file()
    }
    files = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    files -= {"pcap/other.pcap.part", "manifest.json.spare"}
    own = {"README.md", "SHA256SUMS", "ro-crate-metadata.json"}
    assert names == own | {f"runs/demo/r1/{file}" for file in files}
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / "x", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(names) - 1
    unchanged = files - {name.removeprefix("runs/demo/r1/") for name in written.rewritten}
    assert {"manifest.json", "result.json", "pcap/client.pcap", "config.yaml"} <= unchanged
    for file in unchanged:
        assert (tmp_path / "x" / "runs" / "demo" / "r1" / file).read_bytes() == (run / file).read_bytes()
    assert written.sha256 == hashlib.sha256((tmp_path / "a.zip").read_bytes()).hexdigest()


def test_the_inventory_of_a_testbed_stays_at_home(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    (run / "testbed.yaml").write_text("hosts: {a: {ssh: {host: 192.0.2.11, user: alice}}}")
    export(tmp_path / "a.zip", run)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert "runs/demo/r1/config.yaml" in contents
    assert not any(b"192.0.2.11" in data or name.endswith("testbed.yaml") for name, data in contents.items())


def test_nothing_of_the_machine_is_in_an_archive(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "runs" / "demo" / "r1",
        valid=False,
        invalid_reasons=[f"main: iperf3 failed, see {tmp_path}/runs/demo/r1/logs/flow.json"],
        notes=["/home/jos\u00e9/x.yaml was read"],
    )
    (run / "result.json").write_text(f'{{\n "notes": ["see {run}/logs/flow.json"]\n}}')
    written = export(tmp_path / "a.zip", run)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
        assert not archive.comment
        assert {info.date_time for info in archive.infolist() if "pcap/" in info.filename} == {
            (2025, 10, 9, 8, 54, 40)  # the end of the run
        }
    for name, data in contents.items():
        for secret in (str(tmp_path), "build-box-17", "jos", "/home"):
            assert secret.encode() not in data, name
    assert b"see logs/flow.json" in contents["runs/demo/r1/manifest.json"]
    assert b"see logs/flow.json" in contents["runs/demo/r1/result.json"]
    assert b"3 rows in telemetry.parquet" in contents["runs/demo/r1/logs/weir-collector.log"]
    assert set(written.rewritten) == {
        f"runs/demo/r1/{name}"
        for name in (
            *("manifest.json", "result.json", "report.html"),
            *("logs/flow-main-one.json", "logs/weir-collector.log"),
        )
    }


def test_files_that_people_wrote_stay_and_lines_with_paths_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    text = "name: demo\n# measured on build-box-17\nreplay: /home/x/talk.replay\n"
    (run / "config.yaml").write_text(text)
    written = export(tmp_path / "a.zip", run)
    assert written.remains == (
        "runs/demo/r1/config.yaml, line 2: the name of this machine or user",
        "runs/demo/r1/config.yaml, line 3: an absolute path",
    )
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.read("runs/demo/r1/config.yaml").decode() == text
        readme = archive.read("README.md").decode()
    assert all(line in readme for line in written.remains)


def test_the_readme_has_versions_seeds_and_the_commands_to_check_analyse_and_repeat(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    kernel = {
        **{"schema": 1, "name": "6.12", "version": "6.12.1", "congestion_controls": [], "config": []},
        **{"source": {"kind": "tree", "origin": "linux", "sha256": "s"}, "compiler": "gcc"},
        **{"inputs_sha256": "i", "config_sha256": "c", "program_sha256": "p"},
        "build": {"wall_s": 1, "processor_s": 1, "objects": 1},
    }
    virtual = make_run(
        tmp_path / "runs" / "demo" / "r2", virtual_time={"kernel": kernel, "memory_mb": 512}, digest="d1g35t"
    )
    export(tmp_path / "a.zip", run, virtual)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        readme = archive.read("README.md").decode()
    assert (
        "| `runs/demo/r1` | 2025-10-09 08:54:40 | weir 0.1.0, commit 0123456789ab | 7 | finished |" in readme
    )
    for line in (
        "weir import ARCHIVE.zip",
        "weir report runs/demo/r1",
        "weir run runs/demo/r1/config.yaml --time real",
        "weir run runs/demo/r2/config.yaml --time virtual --kernel 6.12 --memory 512",
        "- `d1g35t` for `runs/demo/r2`",
        "Other versions, as the runs logged them: iperf3 3.12, kernel Linux 6.1.0.",
    ):
        assert line in readme.splitlines()


def test_a_campaign_is_exported_with_its_complete_runs_and_its_page(tmp_path: Path) -> None:
    campaign = make_campaign(tmp_path / "buffers", "5_r001", "10_r001")
    contents = contents_of([campaign])
    assert contents.campaigns == ("runs/buffers",)
    assert [run.folder for run in contents.runs] == ["runs/buffers/10_r001", "runs/buffers/5_r001"]
    own = [item.name for item in contents.items if item.run is None]
    assert own == [f"runs/buffers/{name}" for name in ("campaign.yaml", "data/loss.csv", "index.html")]
    assert default_name(contents) == "buffers.zip"
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "campaign.yaml").touch()
    with pytest.raises(ArchiveError, match="no complete run yet"):
        contents_of([tmp_path / "empty"])


def test_runs_that_did_not_finish_are_refused_by_name_unless_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "demo"
    whole = make_run(folder / "r1")
    failed = make_run(folder / "r2", complete=False, state="failed")
    killed = make_run(folder / "r3", complete=False, state="running")
    raw = make_run(folder / "r4")
    (raw / "result.json").unlink()
    cut = make_run(folder / "r5")
    (cut / "result.json").write_text('{"flows": [')
    with pytest.raises(ArchiveError) as error:
        contents_of([whole, failed, killed, raw, cut])
    assert str(error.value).splitlines() == [
        f"{failed}: the run did not finish (failed); valid: a finished run, or --unfinished",
        f"{killed}: the run did not finish (died); valid: a finished run, or --unfinished",
        f"{raw}: the run is not analysed; valid: weir report {raw}, or --unfinished",
        f"{cut}/result.json: line 1: no JSON: Expecting value; valid: the result of a finished run, by weir "
        f"report {cut}, or --unfinished",
    ]
    found = contents_of([whole, failed, killed, raw, cut], unfinished=True)
    assert [run.analysed for run in found.runs] == [True, True, True, False, False]
    lock = os.open(killed, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    try:
        with pytest.raises(ArchiveError, match="the run is under way"):
            contents_of([killed], unfinished=True)
    finally:
        os.close(lock)


def test_what_is_no_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=f"{tmp_path}: no run and no campaign; valid: a run directory"):
        contents_of([tmp_path])
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    twin = make_run(tmp_path / "elsewhere" / "demo" / "r1")
    with pytest.raises(ArchiveError, match="are both runs/demo/r1; valid: one of them"):
        contents_of([run, twin])
    assert len(contents_of([run, run]).runs) == 1
    (run / "pcap" / "link.pcap").symlink_to("/etc/passwd")
    with pytest.raises(ArchiveError, match=r"link\.pcap: a link; valid: a run directory as weir wrote it"):
        contents_of([run])
    (run / "pcap" / "link.pcap").unlink()
    with pytest.raises(ArchiveError, match=r"a\.zip: is in the run"):
        export(run / "a.zip", run)


def test_latest_is_the_run_that_it_points_to(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    (run.parent / "latest").symlink_to("r1")
    assert [each.folder for each in contents_of([run.parent / "latest"]).runs] == ["runs/demo/r1"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_an_export_that_ends_early_leaves_the_old_archive_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    out = tmp_path / "out" / "a.zip"
    out.parent.mkdir()
    out.write_bytes(b"old")

    def stop(done: int) -> None:
        if done > 5_000:
            raise error

    contents = contents_of([run])
    with pytest.raises(type(error)) as raised:
        write_archive(contents, out, ORIGIN, License(), progress=stop)
    assert [path.name for path in out.parent.iterdir()] == ["a.zip"]
    assert out.read_bytes() == b"old"
    if isinstance(raised.value, OSError):
        assert raised.value.filename == str(out)


def test_a_full_disk_is_an_error_of_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full accepts the first bytes into Python's buffer, and no more, as a full disk does."""
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    monkeypatch.setattr(write, "_check_place", lambda _contents, _out: None)
    monkeypatch.setattr(whole_files, "_own_part_of", whole_files.part_of)
    (tmp_path / "a.zip.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as error:
        export(tmp_path / "a.zip", run)
    assert error.value.filename == str(tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()
    assert not (tmp_path / "a.zip.part").is_symlink()


def test_a_file_that_vanishes_is_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs" / "demo" / "r1")
    contents = contents_of([run])
    (run / "telemetry.parquet").unlink()
    with pytest.raises(ArchiveError, match=r"telemetry\.parquet: No such file or directory"):
        write_archive(contents, tmp_path / "a.zip", ORIGIN, License())
    assert not list(tmp_path.glob("a.zip*"))
