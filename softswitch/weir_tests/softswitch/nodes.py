# SPDX-License-Identifier: Apache-2.0
"""Nodes of a lab as network namespaces in place of containers, inside a sandbox, and the files of labs.

The nodes have this machine's programs in place of those of an image. Each sees files of its own in /srv.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

SRV = "/srv"
TIME_LIMIT_S = 60
Endpoint = tuple[str, str]
"""A node and one of its interfaces."""


@dataclass
class Lab:
    """The nodes, their links, and the commands that each runs in turn once the links are there."""

    links: list[tuple[Endpoint, Endpoint]]
    commands: dict[str, list[list[str]]]
    files: dict[str, Path] = field(default_factory=dict)
    """The folder that a node sees as /srv."""


class Nodes:
    """The running nodes of a lab; they end with the sandbox."""

    def __init__(self, lab: Lab) -> None:
        """Make namespaces and links, and run the nodes' commands, those of each to their end."""
        self._files = lab.files
        _run("mount", "-t", "tmpfs", "tmpfs", "/run")
        for node in lab.commands:
            _run("ip", "netns", "add", node)
            self.run(node, "ip", "link", "set", "lo", "up")
        for (node, interface), (other, peer) in lab.links:
            ends = ["name", interface, "netns", node, "type", "veth", "peer", "name", peer, "netns", other]
            _run("ip", "link", "add", *ends)
            for name, end in ((node, interface), (other, peer)):
                self.run(name, "ip", "link", "set", end, "up")
        self.said = {
            node: "".join(self.run(node, *command) for command in commands)
            for node, commands in lab.commands.items()
        }
        """What the commands of each node printed."""

    def run(self, node: str, *command: str) -> str:
        """Run a command on a node to its end and return what it printed."""
        words = shlex.join(command)
        if node in self._files:
            words = f"mount --bind {shlex.quote(str(self._files[node]))} {SRV} && exec {words}"
        return _run("ip", "netns", "exec", node, "sh", "-c", words)


def _run(*command: str) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def kathara(folder: Path) -> Lab:
    """A lab of Kathará: `lab.conf`, a `.startup` file of each device, and `srv` of each device's folder."""
    domains: dict[str, list[Endpoint]] = defaultdict(list)
    for device, number, domain in re.findall(
        r'^(\w+)\[(\d+)\]="(\w+)"', (folder / "lab.conf").read_text(), re.M
    ):
        domains[domain].append((device, f"eth{number}"))
    devices = sorted({device for ends in domains.values() for device, _ in ends})
    return Lab(
        links=[(first, second) for first, second in domains.values()],
        commands={device: [["bash", str(folder / f"{device}.startup")]] for device in devices},
        files={device: folder / device / "srv" for device in devices if (folder / device / "srv").is_dir()},
    )


def containerlab(path: Path) -> Lab:
    """A topology of containerlab: links, `exec` and the bind on /srv of each node."""
    topology = YAML(typ="safe").load(path.read_text())["topology"]
    lab = Lab(links=list(_endpoints(topology)), commands={})
    for name, node in topology["nodes"].items():
        assert node["kind"] == "linux"
        lab.commands[name] = [shlex.split(line) for line in node["exec"]]
        for bind in node.get("binds", ()):
            source, _, target = bind.partition(":")
            assert target == SRV, bind
            lab.files[name] = path.parent / source
    return lab


def _endpoints(topology: dict[str, Any]) -> Iterator[tuple[Endpoint, Endpoint]]:
    for link in topology["links"]:
        (first, second) = (tuple(end.split(":")) for end in link["endpoints"])
        yield first, second
