# SPDX-License-Identifier: Apache-2.0
"""Links of Markdown files, as they are in the repository and as they are in the site."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# A fenced block or code between backticks, which has no links; or a link, perhaps of an image.
_CODE_OR_LINK = re.compile(
    r"(?P<code>^(?P<fence>```+|~~~+)[^\n]*\n.*?^(?P=fence)[^\n]*$|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<image>!?)\[(?P<text>(?:[^\[\]]|!?\[[^\]]*\](?:\([^)]*\))?)*)\]\((?P<target>[^()\s]+)\)",
    re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_FENCED = re.compile(r"^(```+|~~~+).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:")


@dataclass(frozen=True)
class Link:
    """A link with its text and target; `is_image` for one that shows a picture."""

    text: str
    target: str
    is_image: bool

    @property
    def path(self) -> str:
        """The target without its anchor."""
        return self.target.partition("#")[0]

    @property
    def anchor(self) -> str:
        """The target's anchor; empty without one."""
        return self.target.partition("#")[2]

    @property
    def is_external(self) -> bool:
        """Whether the target has a scheme, such as https."""
        return EXTERNAL.match(self.target) is not None


def links_of(markdown: str) -> Iterator[Link]:
    """All links outside code."""
    for found in _CODE_OR_LINK.finditer(markdown):
        if found["code"] is None:
            yield Link(found["text"], found["target"], bool(found["image"]))
            if "](" in found["text"]:  # a picture that is a link
                yield from links_of(found["text"])


def with_links(markdown: str, changed: Callable[[Link], str]) -> str:
    """The text with each link outside code replaced."""

    def replace(found: re.Match[str]) -> str:
        if found["code"] is not None:
            return found[0]
        return changed(Link(found["text"], found["target"], bool(found["image"])))

    return _CODE_OR_LINK.sub(replace, markdown)


def anchors_of(markdown: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    anchors: set[str] = set()
    for heading in _HEADING.findall(_FENCED.sub("", markdown)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = next(n for n in range(1000) if (f"{slug}-{n}" if n else slug) not in anchors)
        anchors.add(f"{slug}-{number}" if number else slug)
    return anchors


def for_site(markdown: str, source: str, pages: Mapping[str, str], root: Path) -> str:
    """A page's text with its links as they are in the site.

    `source` is the page's path in the repository; `pages` has the path in the site by that in the
    repository. A link to another file of the repository becomes the file's path, as the site has no copy
    of it; one to no file stays, and mkdocs reports it.
    """
    here = PurePosixPath(pages[source]).parent

    def changed(link: Link) -> str:
        unchanged = f"{'!' * link.is_image}[{link.text}]({link.target})"
        if link.is_external or not link.path:
            return unchanged
        path = os.path.normpath(PurePosixPath(source).parent / link.path)
        if path in pages:
            target = os.path.relpath(pages[path], here)
            anchor = f"#{link.anchor}" if link.anchor else ""
            return f"{'!' * link.is_image}[{link.text}]({target}{anchor})"
        if not (root / path).exists():
            return unchanged
        return f"`{path}`" if link.text.strip("`") in (path, link.path) else f"{link.text} (`{path}`)"

    return with_links(markdown, changed)
