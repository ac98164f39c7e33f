# SPDX-License-Identifier: Apache-2.0
"""The output of Tofino's compiler as Stratum takes it: one BfPipelineConfig message.

In: the directory that p4c for Tofino was told to write to, and the P4Info. The vendor's compiler leaves a
``.conf`` file that names the others: bf-rt.json, and context.json and the binary of each pipe. The public one
leaves none: then ``manifest.json`` names the program, ``bf-rt.json`` is beside it, and the pipe is a folder.
The schema is Stratum's (hal/lib/barefoot/bf.proto).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from finsy import P4Schema
from finsy.proto import p4i
from google.protobuf import text_format

from weir.controlplane.errors import PipelineError
from weir.controlplane.messages import message_classes
from weir.controlplane.pipeline import Pipeline, check_objects

_P4INFO = ("*.p4info.txtpb", "*.p4info.txt", "p4info.txt", "*.p4info.pb.txt")
_ALL_PIPES = (0, 1, 2, 3)
_MESSAGES = {
    "Profile": [
        ("profile_name", 1, "string"),
        ("context", 2, "bytes"),
        ("binary", 3, "bytes"),
        ("pipe_scope", 4, "repeated uint32"),
    ],
    "BfPipelineConfig": [
        ("p4_name", 1, "string"),
        ("bfruntime_info", 2, "bytes"),
        ("profiles", 3, "repeated Profile"),
    ],
}
BfPipelineConfig = message_classes("stratum.hal.barefoot", _MESSAGES)["BfPipelineConfig"]
"""Stratum's message."""


def bf_pipeline_config(directory: Path) -> bytes:
    """The message for one program, serialized.

    Raises:
        PipelineError: a file is missing or is not what the compiler writes; names it.
    """
    manifest = directory / "manifest.json"
    if manifest.is_file() and not list(directory.glob("*.conf")):
        return _of_public_compiler(directory, manifest)
    path = _only(directory, ("*.conf",), "the compiler's .conf file")
    conf = _json(path)
    try:
        (program,) = conf["p4_devices"][0]["p4_programs"]
        name, pipes = program["program-name"], program["p4_pipelines"]
        info = _read(directory, path, program["bfrt-config"], "bf-rt.json")
        message = BfPipelineConfig(p4_name=name, bfruntime_info=info)
        for pipe in pipes:
            message.profiles.add(
                profile_name=pipe["p4_pipeline_name"],
                context=_read(directory, path, pipe["context"], "context.json"),
                binary=_read(directory, path, pipe["config"], "the binary"),
                pipe_scope=pipe["pipe_scope"],
            )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise PipelineError(
            f"{path}: not a .conf file of one program ({type(error).__name__}: {error}); "
            "valid: as p4c for Tofino writes it"
        ) from error
    return _serialized(message)


def _of_public_compiler(directory: Path, manifest: Path) -> bytes:
    try:
        name = Path(_json(manifest)["programs"][0]["program_name"]).stem
    except (KeyError, IndexError, TypeError) as error:
        raise PipelineError(f"{manifest}: names no program; valid: as p4c for Tofino writes it") from error
    info = _only(directory, ("bf-rt.json",), "bf-rt.json (--bf-rt-schema of the compiler)").read_bytes()
    message = BfPipelineConfig(p4_name=name, bfruntime_info=info)
    for context in sorted(directory.glob("*/context.json")):
        binary = _only(context.parent, ("tofino*.bin",), "the assembler's binary")
        message.profiles.add(
            profile_name=context.parent.name,
            context=context.read_bytes(),
            binary=binary.read_bytes(),
            pipe_scope=_ALL_PIPES,
        )
    if len(message.profiles) != 1:
        raise PipelineError(f"{directory}: has {len(message.profiles)} pipes with context.json; valid: one")
    return _serialized(message)


def _serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def load_tofino_pipeline(directory: Path) -> Pipeline:
    """weir's pipeline as compiled for Tofino, to be pushed to Stratum.

    Raises:
        PipelineError: a file is missing, or the program is not weir's.
    """
    path = _only(directory, _P4INFO, "a P4Info (--p4runtime-files of the compiler)")
    try:
        p4info = text_format.Parse(path.read_text(encoding="utf-8"), p4i.P4Info())
        schema = P4Schema(p4info, bf_pipeline_config(directory))
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise PipelineError(
            f"{path}: not a P4Info: {error}; valid: P4Info in protobuf text format"
        ) from error
    check_objects(schema, path)
    return Pipeline(path, directory, schema)


def _only(directory: Path, patterns: tuple[str, ...], what: str) -> Path:
    found = sorted({path for pattern in patterns for path in directory.glob(pattern)})
    if len(found) != 1:
        has = ", ".join(path.name for path in found) or "none"
        raise PipelineError(f"{directory}: has {has}; valid: {what}, once")
    return found[0]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise PipelineError(f"{path}: not JSON: {error}; valid: as p4c for Tofino writes it") from error


def _read(directory: Path, conf: Path, name: str, what: str) -> bytes:
    """A file that the .conf names, from where it is or, if the output was moved, below the directory."""
    wanted = Path(name)
    places = [
        directory / wanted,
        *(directory / Path(*wanted.parts[drop:]) for drop in range(len(wanted.parts))),
    ]
    for place in places:
        if place.is_file():
            return place.read_bytes()
    raise PipelineError(f"{conf}: {what} is {name}, which is not there; valid: the compiler's whole output")
