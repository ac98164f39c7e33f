# SPDX-License-Identifier: Apache-2.0
"""Builds of a small source by the real make, gcc and patch: what is stored, and each way to fail."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.kernel import build as build_module
from weir.kernel.build import BuildProgress, Order, build_kernel
from weir.kernel.commands import PACKAGES
from weir.kernel.errors import KernelError, KernelInputError
from weir.kernel.patches import SEED_PATCH, read_patch
from weir.kernel.store import KernelStore
from weir_tests.kernel.fake_source import make_source

_MISSING = [name for name in ("gcc", "make", "flex", "bison", "bc", "patch") if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=f"{' '.join(_MISSING)}: not installed")

PATCH = """\
--- a/net/ipv4/tcp_bbr.c
+++ b/net/ipv4/tcp_bbr.c
@@ -1 +1 @@
-int gain = 2;
+int gain = 3;
"""


class Steps(BuildProgress):
    """Keeps the progress of a build."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.counts: list[int] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def compiled(self, objects: int, of_about: int) -> None:
        assert of_about >= objects
        self.counts.append(objects)


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(tmp_path / "kernels")


@pytest.fixture(autouse=True)
def nothing_half_done(store: KernelStore) -> Iterator[None]:
    """Every build, however it ends, leaves no folder of its own."""
    yield
    assert list((store.folder / "building").glob("*")) == []


def test_a_kernel_is_built_recorded_and_named(store: KernelStore, tmp_path: Path) -> None:
    tree, seen = make_source(tmp_path / "linux"), Steps()
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    outcome = build_kernel(Order(tree), store, seen)
    assert outcome.is_new
    assert seen.steps == [
        "reading the source",
        "copying the source",
        "configuring",
        "compiling",
        "booting",
        "removing the source",
    ]
    assert seen.counts == [1]
    record = outcome.kernel.record
    assert record == store.find("6.12.9-rc1").record
    assert (record.version, record.congestion_controls) == ("6.12.9-rc1", ("bbr", "reno"))
    assert (record.source.kind, record.source.origin, record.patches) == ("tree", "linux", ())
    assert (record.compiler, record.build.objects) == ("gcc of the test", 1)
    assert {"CONFIG_TCP_CONG_BBR=y", "CONFIG_HZ=1000", "CONFIG_HOSTFS=y"} <= set(record.config)
    assert sorted(path.name for path in outcome.kernel.folder.iterdir()) == [
        "build.log",
        "config",
        "kernel.json",
        "linux",
    ]
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} == before


def test_the_same_inputs_are_not_built_again_and_get_the_new_name(store: KernelStore, tmp_path: Path) -> None:
    tree = make_source(tmp_path / "linux")
    first = build_kernel(Order(tree, name="one"), store, Steps())
    copy = shutil.copytree(tree, tmp_path / "copy")
    seen = Steps()
    second = build_kernel(Order(copy, name="two"), store, seen)
    assert not second.is_new
    assert seen.counts == []
    assert second.kernel.folder == first.kernel.folder
    assert [kernel.record.name for kernel in store.kernels()] == ["one", "two"]


def test_a_patch_makes_another_kernel_and_leaves_the_tree(store: KernelStore, tmp_path: Path) -> None:
    tree = make_source(tmp_path / "linux")
    patch = tmp_path / "bbr gain.patch"
    patch.write_text(PATCH)
    plain = build_kernel(Order(tree), store, Steps()).kernel
    patched = build_kernel(Order(tree, (patch,)), store, Steps()).kernel
    assert patched.folder != plain.folder
    assert patched.record.name == "6.12.9-rc1+bbr-gain"
    assert [found.file for found in patched.record.patches] == ["bbr gain.patch"]
    assert (tree / "net" / "ipv4" / "tcp_bbr.c").read_text() == "int gain = 2;\n"


def test_a_kernel_is_repeatable_if_weirs_patch_applies_and_its_entropy_follows_from_the_seed(
    store: KernelStore, tmp_path: Path
) -> None:
    seeded = make_source(tmp_path / "seeded", seeded=True)
    before = (seeded / "drivers" / "char" / "random.c").read_text()
    record = build_kernel(Order(seeded, name="seeded"), store, Steps()).kernel.record
    assert record.seed_patch == read_patch(SEED_PATCH).record
    assert record.repeatable
    assert record.patches == ()  # those of the user
    assert (seeded / "drivers" / "char" / "random.c").read_text() == before
    other = build_kernel(Order(make_source(tmp_path / "other"), name="other"), store, Steps()).kernel.record
    assert (other.seed_patch, other.repeatable) == (None, False)


def test_a_patch_that_does_not_apply_is_named_with_its_hunk(store: KernelStore, tmp_path: Path) -> None:
    tree = make_source(tmp_path / "linux", code="int other = 1;\n")
    patch = tmp_path / "gain.patch"
    patch.write_text(PATCH)
    with pytest.raises(KernelInputError) as refused:
        build_kernel(Order(tree, (patch,)), store, Steps())
    assert str(refused.value) == (
        f"{patch} does not apply to this source: hunk 1 of net/ipv4/tcp_bbr.c (line 1)"
    )


def test_a_compiler_error_is_its_first_line_and_the_path_of_the_log(
    store: KernelStore, tmp_path: Path
) -> None:
    tree = make_source(tmp_path / "linux", code="int gain = two;\nint other = three;\n")
    with pytest.raises(KernelError) as failed:
        build_kernel(Order(tree), store, Steps())
    message, _, log = str(failed.value).partition("; log: ")
    assert message.startswith("the source does not compile: net/ipv4/tcp_bbr.c:1:12: error: 'two' undeclared")
    assert "three" in Path(log).read_text()
    assert store.kernels() == []


def test_a_missing_option_is_named(
    store: KernelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.kernel.configuration.read_fragment", lambda: {"CONFIG_LACKING": "y"})
    with pytest.raises(KernelError, match=r"options that weir needs: it does not define CONFIG_LACKING$"):
        build_kernel(Order(make_source(tmp_path / "linux")), store, Steps())


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        (
            "[    0.1] Kernel panic - not syncing: No working init found.",
            "kernel panic: No working init found.",
        ),
        ("tracing thread: Operation not permitted", "tracing thread: Operation not permitted"),
    ],
)
def test_a_kernel_that_does_not_boot_is_not_stored(
    store: KernelStore, tmp_path: Path, says: str, reason: str
) -> None:
    tree = make_source(tmp_path / "linux", kernel=f"#!/bin/sh\necho '{says}'\n")
    with pytest.raises(KernelError) as failed:
        build_kernel(Order(tree), store, Steps())
    assert str(failed.value) == f"the new kernel does not boot: {reason}"
    assert store.kernels() == []


def test_a_full_disk_is_an_error_of_the_disk(
    store: KernelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_source(tmp_path / "linux")
    makefile = (tree / "Makefile").read_text()
    full = "\t@echo 'cc1: error writing to x.s: No space left on device'; exit 1\n"
    (tree / "Makefile").write_text(makefile.replace("\t@gcc -c -o $@ $<\n", full))
    with pytest.raises(OSError, match="No space left on device") as failed:
        build_kernel(Order(tree), store, Steps())
    assert failed.value.errno == errno.ENOSPC
    monkeypatch.setattr(build_module, "_FREE_BYTES_WHOLE", 10**18)
    with pytest.raises(OSError, match=r"a kernel's build needs 1000000000.0 GB, .* GB are free"):
        build_kernel(Order(tree), store, Steps())


def test_ctrl_c_ends_the_compilers(store: KernelStore, tmp_path: Path) -> None:
    # The compiler is one that never ends: it holds the fifo open, which the test reads to its end.
    tree = make_source(tmp_path / "linux")
    fifo = tmp_path / "fifo"
    makefile = (tree / "Makefile").read_text()
    hangs = f"\t@echo '  CC      more.o'; exec 3<>{fifo}; read never <&3\n"
    (tree / "Makefile").write_text(makefile.replace("\t@gcc -c -o $@ $<\n", hangs))
    assert "more.o" in (tree / "Makefile").read_text()
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    class Stopping(Steps):
        def compiled(self, objects: int, of_about: int) -> None:
            super().compiled(objects, of_about)
            if objects == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_kernel(Order(tree), store, Stopping())
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # no process has it open any more
    os.close(reader)
    assert store.kernels() == []


def test_missing_programs_are_named_with_their_packages(
    store: KernelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PACKAGES:
        if name not in ("flex", "bc"):
            (folder / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(KernelError) as failed:
        build_kernel(Order(make_source(tmp_path / "linux")), store, Steps())
    assert str(failed.value) == "flex and bc are not installed; install with: sudo apt-get install flex bc"
