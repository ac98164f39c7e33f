# SPDX-License-Identifier: Apache-2.0
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from weir.kernel import debian
from weir.kernel.debian import DebianSource, debian_source, suite_source
from weir.kernel.errors import KernelError, KernelInputError
from weir.kernel.source import tree_source
from weir_tests.kernel.fake_source import make_source

_MISSING = [name for name in ("apt-get", "dpkg-deb", "gpg", "xz") if shutil.which(name) is None]
needs_apt = pytest.mark.skipif(bool(_MISSING), reason=f"{' '.join(_MISSING)}: not installed")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_source(tmp_path / "linux")


@pytest.mark.skipif(shutil.which("xz") is None, reason="xz: not installed")
def test_debians_source_is_unpacked_without_what_is_never_compiled_unless_it_is_patched(
    tree: Path, tmp_path: Path
) -> None:
    driver, kconfig = tree / "drivers" / "gpu" / "drm" / "a.c", tree / "drivers" / "gpu" / "drm" / "Kconfig"
    other = tree / "arch" / "arm" / "kernel.S"
    for file in (driver, kconfig, other):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    kept = tmp_path / "sources"
    kept.mkdir()
    tar_file = kept / "linux-source-6.12_6.12.9-1.tar.xz"
    subprocess.run(["tar", "--create", "--xz", f"--file={tar_file}", tree.name], cwd=tree.parent, check=True)
    source = debian_source(kept)
    assert source.record.origin == "linux-source-6.12 6.12.9-1"
    for whole in (False, True):
        folder = tmp_path / f"whole-{whole}"
        folder.mkdir()
        source.unpack(folder, tmp_path / "log", whole=whole)
        assert (folder / "arch" / "um" / "Kconfig").is_file()
        assert (folder / "drivers" / "gpu" / "drm" / "Kconfig").is_file()
        assert (folder / "drivers" / "gpu" / "drm" / "a.c").exists() == whole
        assert (folder / "arch" / "arm" / "kernel.S").exists() == whole


@pytest.mark.skipif(shutil.which("xz") is None, reason="xz: not installed")
def test_a_damaged_tar_file_is_an_error_that_names_it(tree: Path, tmp_path: Path) -> None:
    tar_file = tmp_path / "linux-source-6.12_1.tar.xz"
    tar_file.write_bytes(b"no tar file")
    source = DebianSource(tar_file, tree_source(tree).record)
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(KernelError, match=f"^{tar_file} cannot be unpacked: "):
        source.unpack(folder, tmp_path / "log", whole=False)


def test_without_apt_and_an_installed_source_the_option_for_a_tree_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.kernel.debian.SOURCES", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelError) as refused:
        debian_source(tmp_path / "sources")
    assert str(refused.value) == (
        "linux-source-6.12 is a package of Debian, which this is not (apt-get and dpkg-deb are not "
        "installed; install with: sudo apt-get install apt dpkg); another source is given with --source DIR"
    )


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of Debian with the suite `some-backports`, signed by a key that weir is told to trust."""
    folder = tmp_path / "archive"
    for package, version in (("linux-source-6.16", "6.16.2-1"), ("linux-source-7.10", "7.10.1-1~bpo1")):
        _add_package(folder, package, version, tmp_path)
    _add_package(folder, "linux-source-7.9", "7.9.9-1", tmp_path)
    _add_package(folder, "linux-source", "7.99-1", tmp_path)
    keyring = tmp_path / "keys.gpg"
    _sign(folder, "some-backports", keyring)
    monkeypatch.setattr(debian, "KEYRING", keyring)
    monkeypatch.setattr(debian, "_archive", lambda: f"file:{folder}")
    return folder


def _add_package(archive: Path, package: str, version: str, scratch: Path) -> None:
    content = scratch / "content" / package
    sources = content / "usr" / "src"
    sources.mkdir(parents=True)
    (content / "DEBIAN").mkdir()
    control = f"Package: {package}\nVersion: {version}\nArchitecture: all\n"
    control += "Maintainer: a test\nDescription: a test\n"
    (content / "DEBIAN" / "control").write_text(control)
    (sources / f"{package}.tar.xz").write_bytes(f"{package} {version}".encode())
    archive.mkdir(exist_ok=True)
    file = archive / f"{package}.deb"
    subprocess.run(["dpkg-deb", "--build", str(content), str(file)], check=True, capture_output=True)
    data = file.read_bytes()
    entry = (
        f"{control}Filename: {file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"
    )
    index = archive / "dists" / "some-backports" / "main" / "binary-all" / "Packages"
    index.parent.mkdir(parents=True, exist_ok=True)
    with index.open("a") as written:
        written.write(entry)


def _sign(archive: Path, suite: str, keyring: Path) -> None:
    folder = archive / "dists" / suite
    native = subprocess.run(
        ["dpkg", "--print-architecture"], capture_output=True, text=True, check=True
    ).stdout.strip()
    shutil.copytree(folder / "main" / "binary-all", folder / "main" / f"binary-{native}")
    lines = ["Origin: a test", "Label: Debian", f"Suite: {suite}", f"Codename: {suite}"]
    lines += [
        f"Architectures: all {native}",
        "Components: main",
        "Date: Sat, 01 Jan 2000 00:00:00 UTC",
        "SHA256:",
    ]
    for index in sorted(folder.glob("main/*/Packages")):
        data = index.read_bytes()
        lines.append(f" {hashlib.sha256(data).hexdigest()} {len(data)} {index.relative_to(folder)}")
    (folder / "Release").write_text("\n".join(lines) + "\n")
    with tempfile.TemporaryDirectory() as home:  # a short path, since gpg has a socket in it
        gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", ""]
        make_key = ["--quick-generate-key", "a test", "rsa3072", "sign"]
        subprocess.run([*gpg, *make_key], check=True, capture_output=True)
        subprocess.run([*gpg, "--output", str(keyring), "--export"], check=True)
        signed = ["--clearsign", "--output", str(folder / "InRelease"), str(folder / "Release")]
        subprocess.run([*gpg, *signed], check=True)
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)


@needs_apt
def test_the_newest_linux_of_a_suite_is_taken_and_kept(archive: Path, tmp_path: Path) -> None:
    kept = tmp_path / "sources"
    source = suite_source(kept, "some-backports")
    assert source.name == "7.10"
    assert source.record.origin == "linux-source-7.10 7.10.1-1~bpo1"
    assert source.tar_file.read_bytes() == b"linux-source-7.10 7.10.1-1~bpo1"
    assert source.record.sha256 == hashlib.sha256(source.tar_file.read_bytes()).hexdigest()
    (archive / "linux-source-7.10.deb").unlink()  # it is not downloaded again
    assert suite_source(kept, "some-backports") == source
    assert [path.name for path in kept.iterdir()] == ["linux-source-7.10_7.10.1-1~bpo1.tar.xz"]


@needs_apt
def test_a_suite_whose_index_was_changed_after_it_was_signed_is_refused(
    archive: Path, tmp_path: Path
) -> None:
    index = archive / "dists" / "some-backports" / "InRelease"
    index.write_text(index.read_text().replace("Suite: some-backports", "Suite: sOme-backports"))
    with pytest.raises(KernelError, match=r"^apt-get cannot read suite 'some-backports': .*; another source"):
        suite_source(tmp_path / "sources", "some-backports")
    assert list((tmp_path / "sources").iterdir()) == []


@needs_apt
def test_a_suite_that_the_archive_lacks_is_an_error_that_names_it(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(
        KernelError, match=r"^apt-get cannot read suite 'none-backports': .*; another source is"
    ):
        suite_source(tmp_path / "sources", "none-backports")


@needs_apt
def test_a_suite_without_linux_sources_is_an_error(archive: Path, tmp_path: Path) -> None:
    folder = archive / "dists" / "some-backports"
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "content")
    _add_package(archive, "linux-source", "7.99-1", tmp_path)
    (tmp_path / "keys.gpg").unlink()
    _sign(archive, "some-backports", tmp_path / "keys.gpg")
    with pytest.raises(
        KernelError, match=r"^suite 'some-backports' has no package linux-source-N.N; another"
    ):
        suite_source(tmp_path / "sources", "some-backports")


def test_what_is_no_name_of_a_suite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        KernelInputError, match="'a b' is no suite of Debian; valid: such as trixie-backports"
    ):
        suite_source(tmp_path, "a b")
