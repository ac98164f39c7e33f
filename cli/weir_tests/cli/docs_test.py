# SPDX-License-Identifier: Apache-2.0
"""All links of the documentation lead somewhere, and all paths in tables of README and architecture exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[3]


def _module(path: Path) -> ModuleType:
    """A module of a script's folder, which is no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


links = _module(ROOT / "tools" / "site" / "links.py")
PATH = re.compile(r"`([\w*.-]+(?:/[\w*.-]*)+)`")


def missing_paths(page: Path) -> Iterator[str]:
    """Missing paths in table rows. A path may be relative to the folders of the previous one in its row."""
    for row in re.findall(r"^\|(.*)\|$", page.read_text(), re.MULTILINE):
        folders = [ROOT]
        for path in PATH.findall(row):
            found = next((folder for folder in folders if any(folder.glob(path.rstrip("/")))), None)
            if found is None:
                yield path
            else:
                first = next(found.glob(path.rstrip("/")))
                folders = [ROOT, first, *first.parents][: 2 + len(first.relative_to(ROOT).parts)]


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md"])
def test_every_path_in_a_table_exists(page: str) -> None:
    assert list(missing_paths(ROOT / page)) == []


MARKDOWN = sorted(
    path
    for path in subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    if (ROOT / path).is_file()
)


def broken_links(page: Path) -> Iterator[str]:
    """Targets of a page's links within the repository that do not exist, and malformed external ones."""
    for link in links.links_of(page.read_text(encoding="utf-8")):
        if link.is_external:
            # Continuous integration has no network, so only the form of an external link is checked.
            address = urlsplit(link.target)
            if address.scheme != "https" or not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", address.netloc):
                yield link.target
            continue
        target = page.parent / link.path if link.path else page
        anchors = (
            links.anchors_of(target.read_text(encoding="utf-8")) if link.anchor and target.is_file() else ()
        )
        if not target.exists() or (link.anchor and link.anchor not in anchors):
            yield link.target


@pytest.mark.parametrize("page", MARKDOWN)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    assert list(broken_links(ROOT / page)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A *b* `c_d`: e\n[1](#a-b-c_d-e) [2](#a) [3](no.md) [4](http://example.org) [5](https://example.org/x)\n"
        "`[6](code.md)`\n\n```\n[7](fenced.md)\n```\n\n[![8](no.png)](page.md)\n"
    )
    assert list(broken_links(page)) == ["#a", "no.md", "http://example.org", "no.png"]


def test_links_out_of_the_site_become_paths_and_others_follow_the_moved_pages(tmp_path: Path) -> None:
    (tmp_path / "core.rs").touch()
    pages = {"README.md": "index.md", "docs/a.md": "a.md", "part/README.md": "folders/part.md"}
    text = "[a](docs/a.md#x) [code](core.rs) [`core.rs`](core.rs) [gone](gone.md) `[b](docs/a.md)`"
    assert links.for_site(text, "README.md", pages, tmp_path) == (
        "[a](a.md#x) code (`core.rs`) `core.rs` [gone](gone.md) `[b](docs/a.md)`"
    )
    assert links.for_site("[a](../docs/a.md)", "part/README.md", pages, tmp_path) == "[a](../a.md)"
