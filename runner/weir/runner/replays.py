# SPDX-License-Identifier: Apache-2.0
"""The replay files of an experiment: read from its folder, copied into the run, played from the copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weir.controlplane.config import ConfigError, ExperimentConfig, FlowConfig
from weir.controlplane.config.values import max_datagram_bytes
from weir.rundir.directory import RunDirectory
from weir.rundir.whole_files import write_whole
from weir.topo.script import Script, ScriptError, parse_script, regular_writes

_NS = 1_000_000_000

Replays = Mapping[str, str]
"""File name, without folders → text of the replay file. The name is also that of the copy in a run."""


def read_replays(experiment: ExperimentConfig, config: Path) -> Replays:
    """Read the replay files that an experiment names, relative to the folder of its file.

    Raises ConfigError if one cannot be read, is malformed or does not suit its flow, or if two have the same
    file name.
    """
    found: dict[str, str] = {}
    paths: dict[str, Path] = {}
    for index, flow in enumerate(experiment.flows):
        if flow.replay is None:
            continue
        where = f"{config}: flows[{index}].replay"
        path = config.parent / flow.replay
        # The config of an earlier run has its copies in the run's replay folder.
        copy = RunDirectory(config.parent).replays / path.name
        path = copy if copy.is_file() and not path.is_file() else path
        if paths.setdefault(path.name, path) != path:
            other = paths[path.name]
            raise ConfigError([f"{where}: {path} has the same name as {other}; valid: another name"])
        try:
            text = path.read_text(encoding="utf-8")
            script = parse_script(text, str(path))
        except (OSError, UnicodeDecodeError, ScriptError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            hint = "" if isinstance(error, ScriptError) else f"{path}: "
            raise ConfigError([f"{where}: {hint}{reason}; valid: a file of `weir trace`"]) from error
        problem = _unplayable(flow, script)
        if problem is not None:
            raise ConfigError([f"{where}: {path}: {problem}"])
        found[path.name] = text
    return found


def _unplayable(flow: FlowConfig, script: Script) -> str | None:
    """Why the flow cannot play a script; None if it can."""
    if script.protocol != flow.protocol:
        return f"it is {script.protocol}, the flow is {flow.protocol}; valid: protocol: {script.protocol}"
    largest = max_datagram_bytes(flow.ip_version)
    if script.protocol == "udp" and script.largest_write > largest:
        return (
            f"a datagram of {script.largest_write} B does not fit an IPv{flow.ip_version} packet of 1500 B; "
            f"valid: at most {largest} B"
        )
    return None


def keep_replays(run_dir: Path, replays: Replays) -> None:
    """Write copies of the replay files into a run directory."""
    folder = RunDirectory(run_dir).replays
    if replays:
        folder.mkdir()
    for name, text in replays.items():
        write_whole(folder / name, text.encode())


def script_of(flow: FlowConfig, run_dir: Path) -> Script | None:
    """The script that a flow plays; None for an iperf3 flow. Raises ScriptError or OSError."""
    if flow.writes is not None:
        writes = flow.writes
        return regular_writes(
            writes.size,
            writes.every / _NS,
            flow.duration / _NS,
            None if writes.on is None else writes.on / _NS,
            None if writes.off is None else writes.off / _NS,
        )
    if flow.replay is None:
        return None
    path = RunDirectory(run_dir).replays / Path(flow.replay).name
    return parse_script(path.read_text(encoding="utf-8"), str(path))
