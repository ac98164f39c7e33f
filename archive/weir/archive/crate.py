# SPDX-License-Identifier: Apache-2.0
"""The metadata of an archive as an RO-Crate 1.2 (https://w3id.org/ro/crate/1.2).

Runs are datasets, and results of actions: the instrument is weir in its version, the objects are the
experiment, its replay files and the seed. Files have their SHA-256.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from weir.archive import layout
from weir.archive.contents import Contents, ExportedRun
from weir.archive.record import (
    License,
    Member,
    Origin,
    instant,
    programs_of,
    repeat_command,
    software_of,
)
from weir.archive.roles import role_of
from weir.rundir.directory import INPUT_FOLDERS

VERSION = "1.2"
_HOMES = {"iperf3": "https://software.es.net/iperf/", "kernel": "https://kernel.org/"}
"""Addresses of software; weir has none yet, so that of the README stands for it."""
_README = "what is in the archive, how to check it, to analyse the runs again and to repeat them"

_INPUTS = ("config.yaml", *(f"{name}/" for name in INPUT_FOLDERS))


def metadata_text(contents: Contents, members: Sequence[Member], origin: Origin, licence: License) -> str:
    """The text of ro-crate-metadata.json."""
    return json.dumps(metadata(contents, members, origin, licence), indent=1, ensure_ascii=False) + "\n"


def metadata(contents: Contents, members: Sequence[Member], origin: Origin, licence: License) -> Any:
    """The JSON-LD of an archive's files and runs."""
    # Here because it takes a third of a second, which no other command should wait for.
    from rocrate.model.contextentity import ContextEntity
    from rocrate.model.dataset import Dataset
    from rocrate.model.file import File
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version=VERSION)
    root = crate.root_dataset
    root["name"] = title_of(contents)
    root["description"] = description_of(contents)
    root["datePublished"] = origin.at.date().isoformat()

    def context(identifier: str, kind: str, **properties: Any) -> Any:
        return crate.add(ContextEntity(crate, identifier, properties={"@type": kind} | properties))

    root["license"] = context(
        licence.address or "#license",
        "CreativeWork",
        name=licence.text or "no license stated",
        description=licence.statement,
    )

    softwares: dict[str, Any] = {}

    def software(name: str, version: str) -> Any:
        key = f"#{name} {version}".replace(" ", "-").replace(",", "")
        if key not in softwares:
            softwares[key] = context(
                key, "SoftwareApplication", name=name, version=version, url=_HOMES.get(name, layout.README)
            )
        return softwares[key]

    exporter = f"{origin.weir_version}{f', commit {origin.commit}' if origin.commit else ''}"
    crate.metadata["sdPublisher"] = software("weir", exporter)

    folders: dict[str, Any] = {}
    parts: dict[str, list[Any]] = {}
    for name in contents.folders:
        folders[name] = crate.add(Dataset(crate, dest_path=name))
        parts[name] = []
    of_run = {run.folder for run in contents.runs}
    campaigns = {run.folder: parent for run in contents.runs if (parent := _parent(run, contents))}
    files: dict[str, Any] = {}
    for member in members:
        path = member.name.split("/")
        candidates = ("/".join(path[:3]), "/".join(path[:2]))
        folder: str | None = next((name for name in candidates if name in folders), None)
        within = member.name.removeprefix(f"{folder}/")
        role = role_of(within, of_run=folder in of_run)
        files[member.name] = crate.add(
            File(
                crate,
                dest_path=member.name,
                properties={
                    "name": within,
                    "description": role.what if folder else _README,
                    "encodingFormat": role.media_type if folder else "text/markdown",
                    "contentSize": str(member.size_bytes),
                    "sha256": member.sha256,
                },
            )
        )
        if folder:
            parts[folder].append(files[member.name])
    for campaign in contents.campaigns:
        dataset = folders[campaign]
        dataset["name"] = f"campaign {campaign.rpartition('/')[2]}"
        dataset["description"] = "an experiment over a matrix of values, repeated: the runs, and their page"
        runs = [folders[run] for run, parent in campaigns.items() if parent == campaign]
        dataset["hasPart"] = [*parts[campaign], *runs]
    for number, run in enumerate(contents.runs, start=1):
        dataset = folders[run.folder]
        dataset["name"] = f"run {run.source.name} of {run.manifest.name}"
        dataset["description"] = _description(run)
        dataset["hasPart"] = parts[run.folder]
        inputs = [
            file for name, file in files.items() if name.removeprefix(f"{run.folder}/").startswith(_INPUTS)
        ]
        if run.manifest.seed is not None:
            inputs.append(
                context(f"#seed-{number}", "PropertyValue", name="seed", value=str(run.manifest.seed))
            )
        version = software_of(run).removeprefix("weir ")
        action = {
            "name": f"making the run {run.source.name} of {run.manifest.name}",
            "description": f"Repeated with: {repeat_command(run)}",
            "instrument": software("weir", version),
            "object": inputs if len(inputs) != 1 else inputs[0],
            "result": dataset,
            "actionStatus": "http://schema.org/"
            + ("CompletedActionStatus" if run.manifest.complete else "FailedActionStatus"),
        }
        for key, time_ns in (("startTime", run.manifest.started_ns), ("endTime", run.manifest.finished_ns)):
            if (at := instant(time_ns)) is not None:
                action[key] = at
        programs = programs_of(run)
        used = [
            software(name, version)
            for name, version in (("iperf3", programs.iperf3), ("kernel", programs.kernel))
            if version is not None
        ]
        if used:
            action["softwareRequirements"] = used if len(used) != 1 else used[0]
        root.append_to("mentions", context(f"#run-{number}", "CreateAction", **action), compact=True)
    root["hasPart"] = [
        *(entity for name, entity in files.items() if not name.startswith(f"{layout.RUNS}/")),
        *(entity for folder, entity in folders.items() if folder not in campaigns),
    ]
    return crate.metadata.generate()


def title_of(contents: Contents) -> str:
    """A title of the archive."""
    names = list(dict.fromkeys(run.manifest.name for run in contents.runs))
    count = f"{len(contents.runs)} runs" if len(contents.runs) > 1 else "A run"
    return f"{count} of {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}"


def description_of(contents: Contents) -> str:
    """The archive in two sentences."""
    return (
        f"{title_of(contents)}: experiments with policed TCP and UDP, made by weir. Each run has its "
        "experiment, its captures and the switch's report of every packet that it dropped, as far as they "
        "were kept, and the result of their analysis."
    )


def _parent(run: ExportedRun, contents: Contents) -> str | None:
    parent = run.folder.rpartition("/")[0]
    return parent if parent in contents.campaigns else None


def _description(run: ExportedRun) -> str:
    manifest = run.manifest
    facts = [software_of(run)]
    if manifest.seed is not None:
        facts.append(f"seed {manifest.seed}")
    if manifest.campaign is not None:
        cell = [f"{axis} = {label}" for axis, label in manifest.campaign.cell.items()]
        facts += [*cell, f"repeat {manifest.campaign.repeat + 1}"]
    if not manifest.complete:
        facts.append("did not finish")
    elif not manifest.valid:
        facts.append(f"invalid: {'; '.join(manifest.invalid_reasons)}")
    return "; ".join(facts)
