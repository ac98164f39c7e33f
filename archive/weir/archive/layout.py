# SPDX-License-Identifier: Apache-2.0
"""The names in an archive, which both sides check.

ro-crate-metadata.json                     RO-Crate: files, checksums, versions, seeds
README.md                                  for people
SHA256SUMS                                 of every other file, as sha256sum(1) prints and checks them
runs/<experiment>/<run>/                   a run directory
runs/<campaign>/campaign.yaml, index.html  a campaign's own files, also data/ and figures/ of its page
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from weir.rundir.campaign_folder import CAMPAIGN_FILE, FAILED, INVALID, LATEST, PAGE, PAGE_FOLDERS, SUMMARY

METADATA: Final = "ro-crate-metadata.json"
README: Final = "README.md"
SUMS: Final = "SHA256SUMS"
RUNS: Final = "runs"
MANIFEST: Final = "manifest.json"

_LONGEST_PART, _LONGEST_NAME = 255, 1024
# No control characters, no backslash, and no bytes that are not UTF-8 (surrogates).
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]")
_SUM_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def problem_of(name: str) -> str | None:
    """Why a file must not have this name in an archive; None if it may.

    Valid are relative paths with `/` that stay below the folder into which they are unpacked.
    """
    if name.startswith("/"):
        return "an absolute path"
    if _FORBIDDEN.search(name):
        return "control characters or backslashes in its name"
    if len(name.encode()) > _LONGEST_NAME:
        return f"a name of more than {_LONGEST_NAME} bytes"
    for part in name.split("/"):
        if part in ("", ".", ".."):
            return f"{part or 'nothing'!r} as a part of its path"
        if len(part.encode()) > _LONGEST_PART:
            return f"a part of more than {_LONGEST_PART} bytes in its path"
    return None


def is_folder_name(part: str) -> bool:
    """Whether an experiment, a campaign or a run may have this name."""
    reserved = (LATEST, FAILED, INVALID)
    return "/" not in part and problem_of(part) is None and part[0] != "." and part not in reserved


def is_campaign_file(parts: tuple[str, ...]) -> bool:
    """Whether a path below a campaign's folder is one of the campaign's own files."""
    return parts[0] in ((CAMPAIGN_FILE, PAGE, SUMMARY) if len(parts) == 1 else PAGE_FOLDERS)


def sums_text(sums: Iterable[tuple[str, str]]) -> str:
    """The text of SHA256SUMS; `sums` are names and SHA-256 in hex digits."""
    return "".join(f"{digest}  {name}\n" for name, digest in sums)


def parse_sums(text: str) -> dict[str, str]:
    """SHA-256 by name. Raises ValueError, whose text names the line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        match = _SUM_LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not 64 hex digits, two spaces and a name")
        if match[2] in found:
            raise ValueError(f"line {number} is the second for {match[2]}")
        found[match[2]] = match[1]
    return found
