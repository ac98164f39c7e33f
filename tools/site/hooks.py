# SPDX-License-Identifier: Apache-2.0
"""Pages of the site that are not in docs/: README files, the changelog, the reference of the commands.

mkdocs calls the functions whose names begin with `on_`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
from links import for_site

ROOT = Path(__file__).parents[2]
GENERATED_CLI = "cli.md"
_ROLE = re.compile(r":(class|meth|func|data|attr):(?=<)")


def tracked(*patterns: str) -> list[str]:
    """Files of the repository that match, by their paths in it."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(path for path in listed.stdout.splitlines() if (ROOT / path).is_file())


def site_pages() -> dict[str, str]:
    """The path in the site of each file of the repository that is in it."""
    pages = {path: path.removeprefix("docs/") for path in tracked("docs")}
    pages |= {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "docs/README.md": "contents.md"}
    for path in tracked("*/README.md"):
        if not path.startswith("docs/"):
            pages[path] = f"folders/{path.removesuffix('/README.md').replace('/', '-')}.md"
    return pages


PAGES = site_pages()
SOURCES = {page: source for source, page in PAGES.items()}


def on_startup(command: str, dirty: bool) -> None:
    """Gather the packages; mkdocstrings takes only folders that exist before the configuration is read."""
    gather_packages(ROOT / "target" / "site-packages")


def on_config(config: Any) -> Any:
    """Append the folders' README files to the navigation; gather the packages for the reference of Python."""
    folders = [
        {source.removesuffix("/README.md"): page}
        for source, page in PAGES.items()
        if page.startswith("folders/")
    ]
    config.nav = [*config.nav[:-2], {"Folders of the source": folders}, *config.nav[-2:]]
    return config


def gather_packages(folder: Path) -> None:
    """Copy the packages of all parts into one folder, as a wheel has them.

    Links would not do: hatchling follows them, and then leaves the folders that they lead to out of the
    source distribution.
    """
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("*_test.py", "conftest.py", "__pycache__")
    for part in sorted(ROOT.glob("*/weir")):
        if part.parent.name not in ("bench", "ptf-tests"):
            shutil.copytree(part, folder / "weir", ignore=ignored, dirs_exist_ok=True)


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for source, page in PAGES.items():
        if source == "docs/README.md" or not source.startswith("docs/"):
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, GENERATED_CLI, content=commands_page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links to files of the repository into links of the site."""
    source = SOURCES.get(page.file.src_uri)
    return markdown if source is None else for_site(markdown, source, PAGES, ROOT)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Drop the roles of names in docstrings, which mkdocstrings does not know: `:meth:`."""
    return _ROLE.sub("", html)


def commands_page() -> str:
    """The reference of the commands, from the same description as the man page."""
    from weir.cli.main import app
    from weir.cli.manual import manual_of

    program, *commands = manual_of(app)
    lines = ["# Command line", ""]
    for command in [program, *commands]:
        if command is not program:
            lines += [f"## {command.name}", "", f"```\n{command.usage}\n```", ""]
        for paragraph in command.paragraphs:
            lines += [f"```\n{paragraph.text}\n```" if paragraph.verbatim else escape(paragraph.text), ""]
        for parameter in command.parameters:
            lines += [f"`{parameter.form}`", f":   {escape(parameter.help)}", ""]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text without markup, except code between backticks."""
    parts = text.split("`")
    parts[::2] = [
        part.replace("\\", "\\\\").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
        for part in parts[::2]
    ]
    return "`".join(parts)
