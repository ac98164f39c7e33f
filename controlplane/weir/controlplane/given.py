# SPDX-License-Identifier: Apache-2.0
"""An experiment as Python callers give it: a file, the name of a shipped one, or its keys as a mapping."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from weir.controlplane.config import read_text, yaml_text
from weir.controlplane.shipped import find_experiment

Given = str | PathLike[str] | Mapping[str, Any]


def read_given(config: Given) -> tuple[str, Path]:
    """Its YAML text, and its file for messages and relative paths; raises ConfigError.

    A mapping has no file: its paths are relative to the working directory.
    """
    if isinstance(config, Mapping):
        return yaml_text(config), Path("config")
    path = find_experiment(Path(config))
    return read_text(path), path
