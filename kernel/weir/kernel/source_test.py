# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.kernel.errors import KernelInputError
from weir.kernel.source import tree_source
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
