# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from weir.kernel.errors import KernelInputError
from weir.kernel.store import KernelStore, kernels_folder
from weir_tests.kernel.made_up_kernels import write_kernel

DIGEST = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


def finished(folder: Path, version: str = "6.12.117") -> Path:
    """A folder as a build leaves it."""
    return write_kernel(folder, version, DIGEST, ["bbr", "cubic"])


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(tmp_path / "kernels")


def test_the_store_is_in_the_cache_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert kernels_folder() == Path("/cache/weir/kernels")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/user")
    assert kernels_folder() == Path("/home/user/.cache/weir/kernels")


def test_a_user_without_a_home_is_told_which_variable_names_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr("pwd.getpwuid", no_entry)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(KernelInputError, match=r"no home directory .*; valid: XDG_CACHE_HOME=DIR"):
        kernels_folder()


def test_a_kernel_is_found_by_its_inputs_and_by_its_names(store: KernelStore, tmp_path: Path) -> None:
    assert store.built(DIGEST) is None
    kept = store.keep(finished(tmp_path / "made"), DIGEST)
    store.give_name(kept, "6.12")
    store.give_name(kept, "again")
    assert store.built(DIGEST) == kept
    assert [kernel.record.name for kernel in store.kernels()] == ["6.12", "again"]
    found = store.find("6.12")
    assert found.record.version == "6.12.117"
    assert found.program == kept.folder / "linux"


def test_a_name_moves_to_the_newer_kernel_and_the_older_one_stays(store: KernelStore, tmp_path: Path) -> None:
    store.give_name(store.keep(finished(tmp_path / "a"), DIGEST), "bbr3")
    store.give_name(store.keep(finished(tmp_path / "b", "6.13.0"), OTHER), "bbr3")
    assert [(kernel.record.name, kernel.record.version) for kernel in store.kernels()] == [
        ("bbr3", "6.13.0"),
        (None, "6.12.117"),
    ]


def test_an_unknown_name_is_refused_with_those_that_exist(store: KernelStore, tmp_path: Path) -> None:
    with pytest.raises(
        KernelInputError, match="no kernel 'bbr3'; none is built yet; build one with: weir kernel"
    ):
        store.find("bbr3")
    store.give_name(store.keep(finished(tmp_path / "made"), DIGEST), "6.12")
    for name in ("bbr3", "../6.12", ""):
        with pytest.raises(KernelInputError, match=r"valid: 6\.12; build one"):
            store.find(name)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 65, "x.part"])
def test_an_impossible_name_is_refused(store: KernelStore, tmp_path: Path, name: str) -> None:
    kept = store.keep(finished(tmp_path / "made"), DIGEST)
    with pytest.raises(KernelInputError, match="cannot be the name of a kernel; valid: "):
        store.give_name(kept, name)
    assert [kernel.record.name for kernel in store.kernels()] == [None]


@pytest.mark.parametrize("damage", ["kernel.json", "linux"])
def test_a_damaged_kernel_counts_as_none_and_is_replaced(
    store: KernelStore, tmp_path: Path, damage: str
) -> None:
    kept = store.keep(finished(tmp_path / "a"), DIGEST)
    store.give_name(kept, "6.12")
    (kept.folder / damage).unlink()
    assert store.kernels() == []
    assert store.built(DIGEST) is None
    assert store.keep(finished(tmp_path / "b"), DIGEST) == kept


def test_of_two_builds_of_the_same_inputs_the_first_stays(store: KernelStore, tmp_path: Path) -> None:
    first = store.keep(finished(tmp_path / "a"), DIGEST)
    inode = first.program.stat().st_ino
    assert store.keep(finished(tmp_path / "b"), DIGEST).program.stat().st_ino == inode


def test_the_folder_of_a_build_is_removed_and_so_are_those_of_killed_builds(store: KernelStore) -> None:
    killed = store.folder / "building" / "killed"
    (killed / "objects").mkdir(parents=True)
    with store.building() as running, store.building() as beside:
        assert running.is_dir()
        assert beside != running
        assert not killed.exists()
    with pytest.raises(KeyboardInterrupt), store.building() as stopped:
        raise KeyboardInterrupt
    assert not stopped.exists()
    assert list((store.folder / "building").iterdir()) == []
