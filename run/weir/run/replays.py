# SPDX-License-Identifier: Apache-2.0
"""The replay files of an experiment: found beside its file, kept in its run, played from there."""

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
"""Text of each replay file, by the last part of its path: its name in the folder of a run."""


def read_replays(experiment: ExperimentConfig, config: Path) -> Replays:
    """The replay files that an experiment names, from the folder of its file.

    Raises ConfigError for one that cannot be read or is none, or for two of one name.
    """
    found: dict[str, str] = {}
    paths: dict[str, Path] = {}
    for index, flow in enumerate(experiment.flows):
        if flow.replay is None:
            continue
        where = f"{config}: flows[{index}].replay"
        path = config.parent / flow.replay
        kept = (
            RunDirectory(config.parent).replays / path.name
        )  # beside the config of a run that is to be made again
        path = kept if kept.is_file() and not path.is_file() else path
        if paths.setdefault(path.name, path) != path:
            other = paths[path.name]
            raise ConfigError([f"{where}: {path} has the name of {other}; valid: another name"])
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
    """Why the flow cannot play a script, if so."""
    if script.protocol != flow.protocol:
        return f"it is of {script.protocol}, the flow of {flow.protocol}; valid: protocol: {script.protocol}"
    largest = max_datagram_bytes(flow.ip_version)
    if script.protocol == "udp" and script.largest_write > largest:
        return (
            f"a datagram of {script.largest_write} B does not fit an IPv{flow.ip_version} packet of 1500 B; "
            f"valid: at most {largest} B"
        )
    return None


def keep_replays(run_dir: Path, replays: Replays) -> None:
    """Put replay files into the directory of a run."""
    folder = RunDirectory(run_dir).replays
    if replays:
        folder.mkdir()
    for name, text in replays.items():
        write_whole(folder / name, text.encode())


def script_of(flow: FlowConfig, run_dir: Path) -> Script | None:
    """What a flow plays; None for one of iperf3. Raises ScriptError or OSError for a file that is none."""
    if flow.writes is not None:
        its = flow.writes
        return regular_writes(
            its.size,
            its.every / _NS,
            flow.duration / _NS,
            None if its.on is None else its.on / _NS,
            None if its.off is None else its.off / _NS,
        )
    if flow.replay is None:
        return None
    path = RunDirectory(run_dir).replays / Path(flow.replay).name
    return parse_script(path.read_text(encoding="utf-8"), str(path))
