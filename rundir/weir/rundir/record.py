# SPDX-License-Identifier: Apache-2.0
"""JSON files of a run directory as frozen pydantic models."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from weir.rundir.errors import RunFileError


class Record(BaseModel):
    """Base of all models. Unknown fields are kept, so that runs of newer versions are readable."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)


_Model = TypeVar("_Model", bound=Record)


def read_record(path: Path, model: type[_Model]) -> _Model:
    """Read a JSON file as `model`; raises RunFileError with file and key."""
    try:
        text = path.read_bytes()  # pydantic names what is not UTF-8, too
    except (FileNotFoundError, NotADirectoryError):
        raise RunFileError(
            f"{path}: not found; a run directory holds manifest.json, collector.json, "
            "telemetry.parquet and pcap/"
        ) from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "top level"
        raise RunFileError(f"{path}: {where}: {first['msg']}") from error
