# SPDX-License-Identifier: Apache-2.0
"""Packs the output of Tofino's compiler into the message that Stratum loads: one BfPipelineConfig.

In: the output directory of p4c for Tofino, and the P4Info. The vendor's compiler writes a ``.conf`` file that
names the other files: bf-rt.json, and context.json and the binary of each pipe. The public compiler writes no
``.conf``: ``manifest.json`` names the program, ``bf-rt.json`` is next to it, and the pipe is a folder.
The schema is Stratum's (hal/lib/barefoot/bf.proto).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weir.controlplane.errors import PipelineError
from weir.controlplane.messages import message_classes
from weir.controlplane.pipeline import Pipeline, load_schema

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
        PipelineError: a file is missing or is not what the compiler writes; the text names it.
    """
    manifest = directory / "manifest.json"
    if manifest.is_file() and not list(directory.glob("*.conf")):
        return _from_public_compiler(directory, manifest)
    path = _single_file(directory, ("*.conf",), "the compiler's .conf file")
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


def _from_public_compiler(directory: Path, manifest: Path) -> bytes:
    try:
        name = Path(_json(manifest)["programs"][0]["program_name"]).stem
    except (KeyError, IndexError, TypeError) as error:
        raise PipelineError(f"{manifest}: names no program; valid: as p4c for Tofino writes it") from error
    info = _single_file(
        directory, ("bf-rt.json",), "bf-rt.json (--bf-rt-schema of the compiler)"
    ).read_bytes()
    message = BfPipelineConfig(p4_name=name, bfruntime_info=info)
    for context in sorted(directory.glob("*/context.json")):
        binary = _single_file(context.parent, ("tofino*.bin",), "the assembler's binary")
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
    """weir's pipeline as compiled for Tofino, ready to be pushed to Stratum.

    Raises:
        PipelineError: a file is missing or malformed, or the program is not weir's.
    """
    path = _single_file(directory, _P4INFO, "a P4Info (--p4runtime-files of the compiler)")
    return Pipeline(load_schema(path, bf_pipeline_config(directory)), directory)


def _single_file(directory: Path, patterns: tuple[str, ...], what: str) -> Path:
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
    """A file that the .conf names, at its path or, if the output was moved, below the directory."""
    wanted = Path(name)
    candidates = [
        directory / wanted,
        *(directory / Path(*wanted.parts[drop:]) for drop in range(len(wanted.parts))),
    ]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.read_bytes()
    raise PipelineError(f"{conf}: {what} is {name}, which is not there; valid: the compiler's whole output")
