# SPDX-License-Identifier: Apache-2.0
"""`summary.json` as models, its text, and how it is read; docs/spec/campaign-summary.md describes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from weir.campaign.errors import CampaignError
from weir.controlplane.config.schema import as_text, schema_of
from weir.rundir.campaign_folder import CAMPAIGN_FILE, SUMMARY
from weir.rundir.directory import RunDirectory

FORMAT: Final = 1
"""The version of the format, `schema` in the file."""

Value = str | int | float | None


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, populate_by_name=True, allow_inf_nan=False
    )


class CampaignFacts(_Model):
    """The campaign file."""

    name: str
    """The name of its folder: that of the file, with -quick or the time appended where an option chose it."""
    file_sha256: str
    """SHA-256 of the campaign file as it was given."""
    study: str | None
    """The published study beside whose numbers the page sets the runs; null if none."""


class MadeBy(_Model):
    """The software that made the runs."""

    weir_version: str
    commit: str | None
    programs: dict[str, str]
    """First 16 hex digits of the SHA-256 of each compiled part."""


class GuestKernel(_Model):
    """A kernel of runs in virtual time."""

    name: str | None
    version: str
    """As `uname -r` says."""
    inputs_sha256: str
    """Of its source, patches and options."""


class Counts(_Model):
    """Runs, but `unexplained` is packets of all complete runs."""

    planned: int
    complete: int
    invalid: int
    unexplained: int


class FigureValue(_Model):
    """One number of a cell, from its valid runs."""

    name: str
    """The quantity: loss, throughput, goodput, mean delay, retransmissions, Jain's index, …"""
    subject: str
    """The congestion control, the detector or `all flows` whose figure it is; unique with the name."""
    unit: str
    value: float | None
    """The median of the values, or the share of a count in percent; null if there is none."""
    n: int
    """Number of values: flows, runs, verdicts."""
    runs: int
    """Number of runs that they come from."""
    low: float | None
    """Lower end of the interval; null if it has none."""
    high: float | None
    coverage: float | None
    """Probability that the interval holds the true number, if the runs are independent."""


class RunFacts(_Model):
    """One complete run."""

    run: str
    """The name of its directory."""
    repeat: int
    """From 1."""
    experiment_sha256: str
    """Of its experiment, with its seed and its replay files."""
    digest: str | None
    """The run's digest by `weir digest`; null for a run in real time, which never repeats."""
    unexplained: int
    invalid: tuple[str, ...]
    """Reasons why it does not count; empty if it is valid."""


class CellSummary(_Model):
    """One cell of the matrix."""

    cell: dict[str, str]
    """Axis: label."""
    counts: Counts
    figures: tuple[FigureValue, ...]
    runs: tuple[RunFacts, ...]
    """In the order of the repeats."""

    @property
    def name(self) -> str:
        """The cell as `--only` takes it."""
        return ",".join(f"{axis}={label}" for axis, label in self.cell.items()) or "the only cell"


class StudyTable(_Model):
    """A table in which the page sets the runs beside the published study, unrounded where the page rounds."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


class Summary(_Model):
    """The figures of a campaign's page for programs: without times of day, paths and names of machines."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    """Version of this format."""
    campaign: CampaignFacts
    digest: str | None
    """SHA-256 of lines `<digest>  <run>` of all complete runs, sorted by run; null if one has no digest."""
    made_by: MadeBy | None
    """null if no run is complete."""
    targets: tuple[str, ...]
    """The kinds of switches of the runs, sorted."""
    kernels: tuple[GuestKernel, ...]
    """Those of the runs in virtual time, sorted by name; empty in real time."""
    congestion_controls: tuple[str, ...]
    """Those of the measured flows, sorted."""
    counts: Counts
    left_out: dict[str, int]
    """Number of runs left out, by what their kernel lacks: a congestion control or queueing discipline."""
    cells: tuple[CellSummary, ...]
    """In the order of the matrix."""
    study: tuple[StudyTable, ...]
    """In the order of the page."""


def summary_schema_text() -> str:
    """JSON Schema of `summary.json` as text that ends with a newline."""
    return as_text(schema_of(Summary, "weir campaign summary"))


def summary_text(summary: Summary) -> str:
    """The text of the file; an object of plain values, such as a figure, is one line, so that diff serves."""
    return _json(summary.model_dump(mode="json", by_alias=True), "") + "\n"


def _json(node: Any, indent: str) -> str:
    """JSON with a line for each innermost object and array."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if not any(isinstance(child, dict | list) for child in children):
        return json.dumps(node, ensure_ascii=False)
    deeper = indent + " "
    if isinstance(node, dict):
        lines = [f"{deeper}{json.dumps(key)}: {_json(child, deeper)}" for key, child in node.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + _json(child, deeper) for child in node) + f"\n{indent}]"


def read_summary(path: Path) -> Summary:
    """Read a `summary.json`, or that of a campaign's folder; raises CampaignError."""
    file = path / SUMMARY if path.is_dir() else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CampaignError(_not_found(path)) from None
    except (OSError, ValueError) as error:
        raise CampaignError(f"{file}: {error}; valid: the {SUMMARY} of a campaign") from error
    version = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not {"campaign", "cells"} <= data.keys() or not isinstance(version, int):
        raise CampaignError(f"{file}: not the summary of a campaign; valid: the {SUMMARY} of a campaign")
    if version != FORMAT:
        age = "an older" if version < FORMAT else "a newer"
        raise CampaignError(
            f"{file}: schema: {version}, of {age} weir; valid: {FORMAT}, as this weir writes it; "
            "`weir campaign` with the campaign's file writes it anew from complete runs"
        )
    try:
        return Summary.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CampaignError(
            f"{file}: {where}: {first['msg']}; valid: as docs/spec/campaign-summary.md says"
        ) from error


def _not_found(path: Path) -> str:
    if not path.is_dir():
        return f"{path}: not found; valid: the folder of a campaign, such as runs/wehey-bbr, or its {SUMMARY}"
    if (path / CAMPAIGN_FILE).is_file():
        return (
            f"{path}: a campaign without {SUMMARY}: stopped before its page, or made by an older weir; "
            "valid: `weir campaign` with the campaign's file, which writes it from complete runs"
        )
    if RunDirectory(path).manifest.is_file():
        return f"{path}: one run; valid: the folder of a campaign (`weir digest` compares runs)"
    return (
        f"{path}: not a campaign; valid: the folder of a campaign, such as runs/wehey-bbr, or its {SUMMARY}"
    )
