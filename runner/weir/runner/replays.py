# SPDX-License-Identifier: Apache-2.0
"""The replay files of an experiment's flows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from weir.controlplane.config import ConfigError, ExperimentConfig, FlowConfig
from weir.controlplane.config.values import max_datagram_bytes
from weir.rundir.directory import REPLAYS, RunDirectory, named_file
from weir.topo.script import Script, ScriptError, parse_script, regular_writes

_NS = 1_000_000_000


def replays_of(experiment: ExperimentConfig, config: Path) -> Iterator[tuple[str, Path, str]]:
    """The key of each flow's replay file, its path and its text.

    Raises ConfigError if one cannot be read, is malformed or does not suit its flow.
    """
    for index, flow in enumerate(experiment.flows):
        if flow.replay is None:
            continue
        where = f"{config}: flows[{index}].replay"
        path = named_file(config, flow.replay, REPLAYS)
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
        yield where, path, text


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
