# SPDX-License-Identifier: Apache-2.0
import shutil
from pathlib import Path

import pytest

from weir.kernel.errors import KernelInputError
from weir.kernel.patches import apply_patches, read_patch

pytestmark = pytest.mark.skipif(shutil.which("patch") is None, reason="patch: not installed")

LINES = [f"static const int value_{number} = {number};\n" for number in range(40)]


def diff(file: str, line: int, *, old: str, new: str) -> str:
    """A unified diff of one hunk that replaces one line between three lines of context."""
    before, after = LINES[line - 3 : line], LINES[line + 1 : line + 4]
    context_before = "".join(f" {text}" for text in before)
    context_after = "".join(f" {text}" for text in after)
    return (
        f"--- a/{file}\n+++ b/{file}\n@@ -{line - 2},7 +{line - 2},7 @@\n"
        f"{context_before}-{old}+{new}{context_after}"
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "net").mkdir(parents=True)
    (tree / "net" / "tcp.c").write_text("".join(LINES))
    return tree


def apply(tree: Path, *texts: str) -> None:
    paths = []
    for number, text in enumerate(texts):
        path = tree.parent / f"change{number}.patch"
        path.write_text(text)
        paths.append(path)
    log = tree.parent / "log"
    log.touch()
    apply_patches([read_patch(path) for path in paths], tree, tree.parent, log)


GOOD = diff("net/tcp.c", 10, old=LINES[10], new="int changed;\n")


def test_patches_are_applied_in_order(tree: Path) -> None:
    again = GOOD.replace(f"-{LINES[10]}", "-int changed;\n").replace("+int changed;\n", "+int twice;\n")
    apply(tree, GOOD, again)
    assert (tree / "net" / "tcp.c").read_text().splitlines()[10] == "int twice;"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD.replace("value_9 ", "other ").replace(LINES[10], "gone\n"), "hunk 1 of net/tcp.c (line 8)"),
        (GOOD.replace("net/tcp.c", "net/bbr.c"), "there is no file net/bbr.c"),
        (GOOD[: GOOD.index("+int")], "unexpected end of file in patch"),
    ],
)
def test_a_patch_that_does_not_apply_is_refused_with_file_and_hunk(
    tree: Path, text: str, reason: str
) -> None:
    with pytest.raises(KernelInputError) as refused:
        apply(tree, text)
    message = str(refused.value)
    assert message.startswith(f"{tree.parent / 'change0.patch'} does not apply to this source: ")
    assert reason in message
    assert "\n" not in message


def test_a_patch_that_was_applied_before_is_refused(tree: Path) -> None:
    with pytest.raises(KernelInputError, match=r"net/tcp.c has this change already"):
        apply(tree, GOOD, GOOD)


def test_a_file_without_a_diff_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("BBR with another gain\n")
    with pytest.raises(KernelInputError, match=r"notes.txt is no patch; valid: a unified diff"):
        read_patch(text)
    with pytest.raises(KernelInputError, match=r"none.patch: No such file or directory; valid: "):
        read_patch(tmp_path / "none.patch")
