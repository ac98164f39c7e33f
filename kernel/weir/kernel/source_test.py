# SPDX-License-Identifier: Apache-2.0
import shutil
import subprocess
from pathlib import Path

import pytest

from weir.kernel.errors import KernelError, KernelInputError
from weir.kernel.source import DebianSource, debian_source, tree_source
from weir_tests.kernel.fake_source import make_source


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_source(tmp_path / "linux")


def test_a_tree_has_its_version_and_a_digest_of_its_files(tree: Path) -> None:
    source = tree_source(tree)
    assert source.name == "6.12.9-rc1"
    assert source.record.origin == "linux"
    (tree / ".git").mkdir()
    (tree / ".git" / "HEAD").write_text("anything")
    assert tree_source(tree).record == source.record
    (tree / "net" / "ipv4" / "tcp_bbr.c").write_text("int changed;\n")
    assert tree_source(tree).record.sha256 != source.record.sha256


def test_a_tree_is_copied_with_its_links(tree: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    (tree / "link").symlink_to("Makefile")
    tree_source(tree).unpack(folder, tmp_path / "log", whole=False)
    assert (folder / "net" / "ipv4" / "Kconfig").read_text() == (
        tree / "net" / "ipv4" / "Kconfig"
    ).read_text()
    assert (folder / "link").readlink() == Path("Makefile")
    assert tree_source(folder).record.sha256 == tree_source(tree).record.sha256


def test_a_folder_without_a_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelInputError, match="no such folder; valid: the folder of a kernel's source"):
        tree_source(tmp_path / "none")
    with pytest.raises(KernelInputError, match="holds no source of Linux: it has no Makefile; valid: "):
        tree_source(tmp_path)


def test_a_makefile_of_something_else_is_refused(tree: Path) -> None:
    (tree / "Makefile").write_text("all:\n")
    with pytest.raises(KernelInputError, match="Makefile states no version of Linux"):
        tree_source(tree)


def test_a_tree_that_was_built_in_is_refused_with_the_command_that_cleans_it(tree: Path) -> None:
    (tree / ".config").touch()
    with pytest.raises(KernelInputError, match=f"remove it with: make -C {tree} ARCH=um mrproper"):
        tree_source(tree)


def test_a_path_that_make_cannot_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelInputError, match="not built in a path with spaces or colons"):
        tree_source(make_source(tmp_path / "my linux"))


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
    monkeypatch.setattr("weir.kernel.source.INSTALLED", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KernelError) as refused:
        debian_source(tmp_path / "sources")
    assert str(refused.value) == (
        "linux-source-6.12 is a package of Debian, which this is not (apt-get and dpkg-deb are not "
        "installed; install with: sudo apt-get install apt dpkg); another source is given with --source DIR"
    )
