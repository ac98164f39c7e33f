# SPDX-License-Identifier: Apache-2.0
"""README.md of an archive: for the reviewer of an artifact, who has not seen weir before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from weir.archive.contents import Contents, ExportedRun
from weir.archive.crate import description_of, title_of
from weir.archive.record import (
    License,
    Origin,
    campaign_commands,
    instant,
    programs_of,
    repeat_command,
    software_of,
)
from weir.archive.roles import OF_CAMPAIGNS, OF_RUNS, roles_of

_MOST = 20
"""Lines of a list; more are counted."""


def readme_text(
    contents: Contents, origin: Origin, licence: License, rewritten: Sequence[str], remains: Sequence[str]
) -> str:
    """The text of README.md."""
    sections = (
        _head(contents, origin, licence),
        _check(),
        _analyse(contents),
        _repeat(contents),
        _files(contents),
        _private(rewritten, remains),
    )
    return "\n".join(line for section in sections for line in section)


def _head(contents: Contents, origin: Origin, licence: License) -> Iterator[str]:
    commit = f", commit {origin.commit}" if origin.commit else ""
    yield f"# {title_of(contents)}"
    yield ""
    yield description_of(contents)
    yield f"`weir export` of weir {origin.weir_version}{commit} made this archive on {origin.at.date()}."
    yield "It is an RO-Crate: `ro-crate-metadata.json` says for programs what this page says for people."
    yield ""
    yield f"License: {licence.statement}"
    yield ""
    yield "| run | ended (UTC) | made by | seed | state |"
    yield "| --- | --- | --- | --- | --- |"
    for run in contents.runs:
        manifest = run.manifest
        ended = (instant(manifest.finished_ns) or "–").removesuffix("Z").replace("T", " ")
        seed = "–" if manifest.seed is None else manifest.seed
        yield f"| `{run.folder}` | {ended} | {software_of(run)} | {seed} | {_state(run)} |"
    yield ""
    others = dict.fromkeys(
        f"{name} {version}"
        for run in contents.runs
        for name, version in (("iperf3", programs_of(run).iperf3), ("kernel", programs_of(run).kernel))
        if version
    )
    if others:
        yield f"Other versions, as the runs logged them: {', '.join(others)}."
        yield ""


def _state(run: ExportedRun) -> str:
    if not run.manifest.complete:
        return f"did not finish ({run.manifest.state or 'unknown'})"
    if not run.analysed:
        return "not analysed"
    if not run.manifest.valid:
        return f"invalid: {'; '.join(run.manifest.invalid_reasons)}".replace("|", "/")
    return "finished"


def _check() -> Iterator[str]:
    yield from (
        "## Check the files",
        "",
        "```sh",
        "sha256sum --check --quiet SHA256SUMS   # in the unpacked archive; no output: all files are whole",
        "```",
        "",
        "`weir import` checks them too. The same sums are in `ro-crate-metadata.json`.",
        "",
    )


def _analyse(contents: Contents) -> Iterator[str]:
    software = list(dict.fromkeys(software_of(run) for run in contents.runs))
    again = [run for run in contents.runs if run.raw and run.manifest.complete]
    yield "## Analyse the runs again"
    yield ""
    yield f"Install weir; the runs were made by {' and '.join(software)}. Its README says how. Then:"
    yield ""
    if not again:
        yield "These runs were kept without captures or reports, so their results cannot be computed again."
        yield "Repeat the runs instead, and compare."
        yield ""
        return
    yield "```sh"
    yield "weir import ARCHIVE.zip"
    folder = quote(again[0].folder)
    yield f"cp {folder}/result.json before.json"
    yield f"weir report {folder}"
    yield f"cmp before.json {folder}/result.json   # no output: the same result, byte for byte"
    yield "```"
    yield ""
    if len(again) > 1:
        yield f"{len(again)} of the {len(contents.runs)} runs have what their results were computed from."
        yield ""
    yield "Another version or commit of weir may analyse otherwise. `report.html` is made anew, too."
    yield ""


def _repeat(contents: Contents) -> Iterator[str]:
    yield "## Repeat the runs"
    yield ""
    yield "```sh"
    for folder in contents.campaigns:
        yield from campaign_commands(contents, folder)
    yield from _some([repeat_command(run) for run in contents.runs], "# and {} more like these")
    yield "```"
    yield ""
    if any(run.manifest.virtual_time is None for run in contents.runs):
        yield "In real time two runs of an experiment differ: the schedule of the flows follows from the"
        yield "seed, but the packets are the kernel's. Expect the same statements, not the same bytes."
        yield ""
    digests = [(run.folder, run.manifest.digest) for run in contents.runs if run.manifest.digest]
    if digests:
        yield "Runs in virtual time repeat to the byte, on a kernel built from the same inputs: `weir kernel"
        yield "build`; the manifest lists its source, patches and options. `weir digest RUN` then prints:"
        yield ""
        yield from _some([f"- `{digest}` for `{folder}`" for folder, digest in digests], "- and {} more")
        yield ""


def _files(contents: Contents) -> Iterator[str]:
    yield "## Files"
    yield ""
    of_runs = roles_of((item.within for item in contents.items if item.run is not None), OF_RUNS)
    yield "| in a run | what it is |"
    yield "| --- | --- |"
    for pattern, role in of_runs.items():
        yield f"| `{pattern}` | {role.what} |"
    yield ""
    if contents.campaigns:
        yield "| in the folder of a campaign | what it is |"
        yield "| --- | --- |"
        its = roles_of((item.within for item in contents.items if item.run is None), OF_CAMPAIGNS)
        for pattern, role in its.items():
            yield f"| `{pattern}` | {role.what} |"
        yield ""
    yield "Counts are packets, rates bit/s, times ns since 1970 or s, as the names say. A run without"
    yield "captures, telemetry and sockets was kept for its result only. Pages have scripts: where you do"
    yield "not trust the authors, open a page after `weir report` has made it anew."
    yield ""


def _private(rewritten: Sequence[str], remains: Sequence[str]) -> Iterator[str]:
    yield "## What the archive says about its authors"
    yield ""
    yield "Absolute paths, host names and user names were removed from logs and messages. Nothing else of the"
    if rewritten:
        yield f"runs' files was changed. These were ({len(rewritten)}):"
        yield ""
        yield from _some([f"- `{name}`" for name in rewritten], "- and {} more")
    else:
        yield "runs' files would have been changed; here nothing was."
    yield ""
    yield "What remains: when the runs were made; versions of weir, iperf3 and the kernel; the headers of"
    yield "packets and the first bytes of their payload, with the addresses of the experiment; the address"
    yield "and the interfaces of a switch that ran before; names and comments in experiment files and replay"
    yield "files, which are as their authors wrote them."
    if remains:
        yield ""
        yield "These lines of them look as if they named a place or a person:"
        yield ""
        yield from _some([f"- `{line}`" for line in remains], "- and {} more")
    yield ""


def _some(lines: Sequence[str], more: str) -> Iterable[str]:
    yield from lines[:_MOST]
    if len(lines) > _MOST:
        yield more.format(len(lines) - _MOST)
