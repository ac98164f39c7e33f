# SPDX-License-Identifier: Apache-2.0
"""Hostile and damaged archives are refused by name, and write nothing."""

from __future__ import annotations

import io
import json
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weir.archive import layout
from weir.archive.errors import ArchiveError
from weir.archive.read import Limits, open_archive
from weir.archive.unpack import import_archive
from weir_tests.archive.made_up_run import COMPLETE
from weir_tests.archive.zips import FILES, MANIFEST, sums_of, tree, written, zip_of

EVIL = "runs/demo/r1/x"


def with_file(name: str | zipfile.ZipInfo, data: bytes = b"evil") -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # zipfile's, of names that occur twice
        return zip_of([*FILES.items(), (name, data)])


def of_mode(mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(EVIL)
    info.create_system = 3
    info.external_attr = mode << 16
    return info


def of_method(method: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(EVIL)
    info.compress_type = method
    return info


def with_nul() -> bytes:
    return with_file("runs/demo/r1/xZy").replace(b"runs/demo/r1/xZy", b"runs/demo/r1/x\0y")


def with_manifest(**fields: object) -> bytes:
    return zip_of([("runs/demo/r1/manifest.json", json.dumps(COMPLETE | fields).encode())])


def encrypted() -> bytes:
    data = bytearray(zip_of())
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    return bytes(data)


def with_comment() -> bytes:
    buffer = io.BytesIO(zip_of())
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = b"hello"
    return buffer.getvalue()


def of_long_list() -> bytes:
    """Its end says that the list of members has 200 GB, in 64 bits."""
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2**32, 2**32, 200 * 10**9, 0)
    return zip_of()[:-22] + end64 + locator + end


def of_wrong_sum() -> bytes:
    files = dict(FILES) | {"runs/demo/r1/pcap/client.pcap": b"Packets"}
    return zip_of(files.items(), sums=sums_of(FILES.items()))


HOSTILE: list[tuple[str, Callable[[], bytes], str]] = [
    ("parent", lambda: with_file("../evil"), "'..' as a part of its path"),
    ("parent within", lambda: with_file("runs/demo/r1/../../../evil"), "'..' as a part of its path"),
    ("absolute", lambda: with_file("/etc/evil"), "an absolute path"),
    ("backslash", lambda: with_file("runs\\..\\evil"), "control characters or backslashes"),
    ("escape", lambda: with_file("runs/demo/r1/\x1b[2J"), "control characters or backslashes"),
    ("NUL", with_nul, "a NUL or another separator in its name"),
    ("empty part", lambda: with_file("runs/demo//x"), "'nothing' as a part of its path"),
    ("long name", lambda: with_file(f"runs/demo/r1/{'x' * 300}"), "a part of more than 255 bytes"),
    ("long path", lambda: with_file("runs/demo/r1/" + "x/" * 600 + "x"), "a name of more than 1024 bytes"),
    ("link", lambda: with_file(of_mode(stat.S_IFLNK | 0o777), b"/etc/passwd"), "a link, a device or another"),
    ("device", lambda: with_file(of_mode(stat.S_IFBLK | 0o666)), "a link, a device or another"),
    ("pipe", lambda: with_file(of_mode(stat.S_IFIFO | 0o666)), "a link, a device or another"),
    ("folder as file", lambda: with_file(of_mode(stat.S_IFDIR | 0o777)), "a link, a device or another"),
    ("compression", lambda: with_file(of_method(zipfile.ZIP_LZMA)), "compression method 14"),
    ("encrypted", encrypted, "encrypted"),
    ("twice", lambda: with_file("runs/demo/r1/manifest.json"), "twice in the archive"),
    ("file and folder", lambda: with_file("runs/demo/r1/pcap"), "a file and a folder"),
    ("beside the runs", lambda: with_file("evil.sh"), "not a file of an archive of runs"),
    ("no run", lambda: with_file("runs/evil.sh"), "not in the folder of a run"),
    ("hidden", lambda: with_file("runs/.evil/r1/x"), "not in the folder of a run"),
    ("hidden run", lambda: with_file("runs/demo/.partial/manifest.json", MANIFEST), "no run may have this"),
    ("no campaign", lambda: with_file("runs/demo/index.html"), "in no run and no file of a campaign"),
    ("latest", lambda: with_file("runs/demo/latest/manifest.json", MANIFEST), "no run may have this name"),
    ("no manifest", lambda: with_file("runs/demo/r2/x"), "in no run and no file of a campaign"),
    (
        "capture elsewhere",
        lambda: with_manifest(hosts=[{"name": "h", "addresses": [], "pcap": "/etc/passwd"}]),
        "the capture of h has an absolute path",
    ),
    (
        "capture above",
        lambda: with_manifest(hosts=[{"name": "h", "addresses": [], "pcap": "../r2/x"}]),
        "the capture of h has '..' as a part",
    ),
    ("manifest", lambda: with_manifest(phases=3), "manifest.json: phases: "),
    ("wrong sum", of_wrong_sum, "runs/demo/r1/pcap/client.pcap: its SHA-256 is not that of SHA256SUMS"),
    (
        "no sum",
        lambda: zip_of(sums=sums_of(list(FILES.items())[1:])),
        "README.md: has no checksum in SHA256SUMS",
    ),
    (
        "sum of nothing",
        lambda: zip_of(sums=sums_of([*FILES.items(), ("runs/demo/r1/y", b"")])),
        "runs/demo/r1/y: in SHA256SUMS, but not in the archive",
    ),
    ("no sums", lambda: zip_of().replace(b"SHA256SUMS", b"SHA256sums"), "no SHA256SUMS in it"),
    ("sums twice", lambda: zip_of(sums=sums_of(FILES.items()) * 2), "line 5 is the second for README.md"),
    ("other sums", lambda: zip_of(sums=b"hello"), "line 1 is not 64 hex digits"),
    ("no runs", lambda: zip_of([("README.md", b"")]), "no run in it"),
    ("long list", of_long_list, "a list of files of 200000000000 bytes"),
    ("comment", with_comment, "not a whole zip without a comment"),
    ("half", lambda: zip_of()[:200], "not a whole zip"),
    ("nothing", lambda: b"", "not a whole zip"),
    ("no zip", lambda: b"\x1f\x8b" + bytes(1000), "not a whole zip"),
]


@pytest.mark.parametrize(
    ("archive", "problem"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE]
)
def test_a_hostile_or_damaged_archive_is_refused_and_writes_nothing(
    tmp_path: Path, archive: Callable[[], bytes], problem: str
) -> None:
    path = written(tmp_path / "a.zip", archive())
    with pytest.raises(ArchiveError) as error:
        import_archive(path, tmp_path / "x" / "runs")
    assert problem in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    assert sorted(tmp_path.iterdir()) == [path]


def test_bounds_on_members_and_bytes_are_checked_before_anything_is_unpacked(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zip", with_file(EVIL, bytes(3_000_000)))
    assert path.stat().st_size < 10_000
    with pytest.raises(
        ArchiveError, match=r"0\.0 GB unpacked; valid: at most 0\.002 GB, or a larger --max-size"
    ):
        import_archive(path, tmp_path / "runs", Limits(total_bytes=2_000_000))
    with pytest.raises(ArchiveError, match="6 files; valid: at most 5"):
        import_archive(path, tmp_path / "runs", Limits(members=5))
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_member_that_is_longer_than_the_list_says_is_refused(tmp_path: Path) -> None:
    data = bytearray(with_file(EVIL, bytes(3_000_000)))
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(EVIL.encode()))
    data[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    path = written(tmp_path / "a.zip", bytes(data))
    with pytest.raises(ArchiveError, match=EVIL):
        import_archive(path, tmp_path / "runs")
    assert sorted(tmp_path.iterdir()) == [path]


def test_members_that_share_their_bytes_count_each(tmp_path: Path) -> None:
    """As in zip bombs whose list has many entries for one member."""
    data = zip_of([*FILES.items(), (EVIL, bytes(1_000_000))], sums=b"")
    start = data.rindex(b"PK\x01\x02", 0, data.rindex(EVIL.encode()))
    entry = data[start : start + 46 + len(EVIL)]
    more = b"".join(entry.replace(EVIL.encode(), f"{EVIL[:-3]}{n:03}".encode()) for n in range(100))
    end = bytearray(data[-22:])
    end[12:16] = (int.from_bytes(end[12:16], "little") + len(more)).to_bytes(4, "little")
    path = written(tmp_path / "a.zip", data[:-22] + more + bytes(end))
    with pytest.raises(ArchiveError):
        import_archive(path, tmp_path / "runs", Limits(total_bytes=50_000_000))
    assert sorted(tmp_path.iterdir()) == [path]


def test_an_archive_that_others_packed_again_is_read(tmp_path: Path) -> None:
    """With entries of folders, without modes, in another order, stored."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(layout.SUMS, sums_of(FILES.items()))
        for name in ("runs/", "runs/demo/", "runs/demo/r1/", "runs/demo/r1/pcap/"):
            archive.writestr(name, b"")
        for name, data in reversed(FILES.items()):
            info = zipfile.ZipInfo(name)
            info.create_system = 0
            archive.writestr(info, data)
    with open_archive(written(tmp_path / "a.zip", buffer.getvalue())) as opened:
        assert [str(run.folder) for run in opened.runs] == ["demo/r1"]


def outcome(folder: Path, data: bytes) -> dict[str, bytes] | None:
    """The files of an import; None if it was refused. Any other error, or a file elsewhere, fails."""
    folder.mkdir()
    path = written(folder / "a.zip", data)
    try:
        import_archive(path, folder / "runs", Limits(members=1000, total_bytes=10_000_000))
    except ArchiveError:
        assert [each.name for each in folder.iterdir()] == ["a.zip"]
        return None
    assert {each.name for each in folder.iterdir()} == {"a.zip", "runs"}
    return tree(folder / "runs")


WHOLE = {name.removeprefix("runs/"): data for name, data in FILES.items() if name.startswith("runs/")}
FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(data=st.data())
def test_an_archive_with_changed_bytes_is_refused_or_gives_the_same_runs(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    archive = bytearray(zip_of())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(archive) - 1))
        kind = data.draw(st.sampled_from(("flip", "set", "cut", "insert")))
        if kind == "flip":
            archive[at] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "set":
            value = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
            archive[at : at + 4] = bytes([value]) * len(archive[at : at + 4])
        elif kind == "cut":
            del archive[at : at + data.draw(st.integers(1, 50))]
        else:
            archive[at:at] = data.draw(st.binary(min_size=1, max_size=50))
        if not archive:
            break
    found = outcome(tmp_path_factory.mktemp("fuzz") / "x", bytes(archive))
    # Checksums hold, so what is imported is what was exported, whatever else was changed.
    assert found in (None, WHOLE)


@FUZZ
@given(data=st.binary(max_size=500), end=st.booleans())
def test_any_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, end: bool) -> None:
    found = outcome(tmp_path_factory.mktemp("fuzz") / "x", data + (zip_of()[-22:] if end else b""))
    assert found is None


NAMES = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(("runs", "demo", "r1", "..", ".", "", "x", "manifest.json", "é")), max_size=6
    ).map("/".join),
)


@FUZZ
@given(names=st.lists(NAMES, max_size=5))
def test_files_of_any_name_are_refused_or_within_a_run(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    files = dict(FILES) | {name: MANIFEST for name in names if name and "\0" not in name}
    try:
        archive = zip_of(files.items())
    except (UnicodeEncodeError, ValueError):  # no zip can have this name
        return
    found = outcome(tmp_path_factory.mktemp("fuzz") / "x", archive)
    if found is not None:
        kept = {name.removeprefix("runs/"): data for name, data in files.items() if name.startswith("runs/")}
        assert found == kept


@given(name=st.text(max_size=60))
def test_a_name_without_problem_stays_below_its_folder(name: str) -> None:
    if layout.problem_of(name) is None:
        place = Path("/a/b") / name
        assert place.is_relative_to("/a/b")
        assert ".." not in place.parts
        assert place != Path("/a/b")
