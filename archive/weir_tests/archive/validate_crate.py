# SPDX-License-Identifier: Apache-2.0
"""Validates RO-Crates with roc-validator, in that package's own Python; prints a line of JSON for each.

Usage: PYTHON validate_crate.py PROFILE ARCHIVE…

Imports nothing of weir: roc-validator needs an older rich. It needs no network: the JSON-LD context of
RO-Crate, which it would fetch, is that of the package rocrate. That is of RO-Crate 1.3, in which the terms
of 1.2 are.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import requests
import rocrate
from rocrate_validator import models, services
from rocrate_validator.utils.http import HttpRequester

CONTEXT = Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld"


def answer(_requester: Any, url: str, **_options: Any) -> requests.Response:
    """The context for its address, and 504 for any other."""
    response = requests.Response()
    response.url = url
    response.status_code = 504
    if url.startswith("https://w3id.org/ro/crate/") and url.endswith("/context"):
        response.status_code = 200
        response.headers["Content-Type"] = "application/ld+json"
        response._content = CONTEXT.read_bytes()
    return response


def main() -> None:
    """Validate each archive, recommendations included."""
    HttpRequester.get = HttpRequester.head = HttpRequester.fetch_fresh = answer
    profile, *archives = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for archive in archives:
            settings = services.ValidationSettings(
                rocrate_uri=archive,
                profile_identifier=profile,
                requirement_severity=models.Severity.RECOMMENDED,
                offline=True,
                cache_path=Path(folder, "cache"),
            )
            found = services.validate(settings)
            issues = [(issue.severity.name, issue.message) for issue in found.get_issues()]
            print(json.dumps(sorted(set(issues))))


if __name__ == "__main__":
    main()
