# SPDX-License-Identifier: Apache-2.0
"""Hosts with a real sshd each, in network, mount and PID namespaces of their own, inside the sandbox.

root namespace of the sandbox: weir         namespace a                namespace b
┌───────────────────────────────────┐      ┌────────────────────┐     ┌────────────────────┐
│ control (bridge) 192.168.50.254   ├──────┤ ctl0 192.168.50.1  │  …  │ ctl0 192.168.50.2  │
│ a-exp (no address)                ├──────┤ exp0 10.0.0.1      │     │ exp0 10.0.0.2      │
└───────────────────────────────────┘      │ sshd               │     │ sshd               │
                                           └────────────────────┘     └────────────────────┘
"""

import contextlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from weir.testbed.inventory import TestbedConfig
from weir.topo.linux import NETNS_FOLDER
from weir.topo.process import LoggedProcess, run_tool
from weir.topo.tools import find_tool, search_path
from weir_tests.topo.scenarios import poll_until

CONTROL = "192.168.50"
EXPERIMENT = "10.0.0"
_AUTHORIZED = "/run/authorized_keys"
_INIT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from weir_tests.testbed.host_init import run; run()"
)


def user_name() -> str:
    """The user who runs the scenario."""
    return pwd.getpwuid(os.getuid()).pw_name


@dataclass
class LabHost:
    """A host with its sshd."""

    name: str
    number: int
    folder: Path
    sshd: LoggedProcess
    key: asyncssh.SSHKey

    @property
    def address(self) -> str:
        """Its control address."""
        return f"{CONTROL}.{self.number}"

    def run(self, *argv: str) -> str:
        """Run a command in its network namespace; returns its stdout."""
        command = ["nsenter", f"--net={NETNS_FOLDER / self.name}", "--", *argv]
        environment = {**os.environ, "PATH": search_path()}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    def processes(self, word: str) -> list[int]:
        """Processes below its sshd whose command line contains a word, by their ids here."""
        return [pid for pid in descendants(self.sshd.pid) if word in _command_line(pid)]

    def cut(self) -> None:
        """Kill every session of its sshd, but not the listener; what runs in the sessions lives on."""
        for pid in descendants(self.sshd.pid):
            line = _command_line(pid)
            if line.startswith("sshd") and "listener" not in line:
                os.kill(pid, signal.SIGKILL)


@dataclass
class Lab:
    """The hosts; a context manager that ends them."""

    folder: Path
    hosts: dict[str, LabHost] = field(default_factory=dict)

    def __enter__(self) -> "Lab":
        """Make the control network and the user's key."""
        self.folder.mkdir(parents=True)
        self.identity = self.folder / "identity"
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(self.identity)
        self.identity.chmod(0o600)
        batch = f"link add control type bridge\naddr add {CONTROL}.254/24 dev control\nlink set control up\n"
        run_tool("ip", "-batch", "-", input_text=batch)
        Path("/run/sshd").mkdir(mode=0o755)
        # The sandbox's own /run: sshd reads it as the user who logs in, who may not enter the folder.
        key.write_public_key(_AUTHORIZED)
        Path(_AUTHORIZED).chmod(0o644)
        return self

    def __exit__(self, *_: object) -> None:
        """End the sshds, and with their PID namespaces all that runs there."""
        for host in self.hosts.values():
            host.sshd.stop(signal.SIGKILL)

    def old_iperf3(self) -> list[str]:
        """The lines of sshd_config of a host whose iperf3 does not know --connect-timeout."""
        folder = self.folder / "old"
        folder.mkdir()
        (folder / "iperf3").write_text('#!/bin/sh\n/usr/bin/iperf3 "$@" | grep -v connect-timeout\n')
        (folder / "iperf3").chmod(0o755)
        return [f"SetEnv PATH={folder}:/usr/bin:/bin"]

    def add(
        self,
        name: str,
        *,
        config: Sequence[str] = (),
        tmpfs: str | None = None,
        users: Sequence[str] = (),
        sudoers: str | None = None,
        without: Sequence[str] = (),
        shell: str = "/bin/sh",
    ) -> LabHost:
        """Start a host: more lines of sshd_config, options of a tmpfs on its work folder, users, sudoers.

        It is `without` these programs of the machine. `shell` is the login shell of the user who runs
        the scenario, whose home is the host's folder.
        """
        number = len(self.hosts) + 1
        folder = self.folder / name
        (folder / "work").mkdir(parents=True)
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(folder / "host_key")
        (folder / "host_key").chmod(0o600)
        batch = (
            f"netns add {name}\n"
            f"link add ctl0 netns {name} type veth peer name {name}-ctl\n"
            f"link add exp0 netns {name} address 02:00:00:00:00:{number:02x} type veth peer name {name}-exp\n"
            f"link set {name}-ctl master control\nlink set {name}-ctl up\nlink set {name}-exp up\n"
        )
        run_tool("ip", "-batch", "-", input_text=batch)
        # Without duplicate address detection, which would change what `ip address` shows meanwhile.
        no_dad = (
            find_tool("sysctl"),  # in sbin, which is not on everybody's PATH
            "-q",
            "-w",
            "net.ipv6.conf.default.accept_dad=0",
            "net.ipv6.conf.exp0.accept_dad=0",
        )
        run_tool("nsenter", f"--net={NETNS_FOLDER / name}", "--", *no_dad)
        batch = (
            f"link set lo up\naddr add {CONTROL}.{number}/24 dev ctl0\nlink set ctl0 up\n"
            f"addr add {EXPERIMENT}.{number}/24 dev exp0\nlink set exp0 up\n"
        )
        run_tool("ip", "-n", name, "-batch", "-", input_text=batch)
        poll_until(lambda: "fe80::" in run_tool("ip", "-n", name, "-6", "address", "show", "dev", "exp0"))
        lines = [
            "Port 22",
            f"ListenAddress {CONTROL}.{number}",
            f"HostKey {folder / 'host_key'}",
            f"AuthorizedKeysFile {_AUTHORIZED}",
            "PidFile none",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin prohibit-password",
            *config,
        ]
        (folder / "sshd_config").write_text("\n".join(lines) + "\n")
        binds = self._files_of(folder, users, sudoers, shell)
        for program in without:
            path = shutil.which(program, path=search_path())
            assert path is not None
            (folder / f"no-{program}").touch(mode=0o600)
            binds[str(folder / f"no-{program}")] = path
        init = {"binds": binds, "tmpfs": {str(folder / "work"): tmpfs} if tmpfs else {}}
        sshd = shutil.which("sshd", path=search_path())
        assert sshd is not None
        argv = [
            *("nsenter", f"--net={NETNS_FOLDER / name}", "--"),
            *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
            *(sys.executable, "-c", _INIT, json.dumps(sys.path), json.dumps(init)),
            *(sshd, "-D", "-e", "-f", str(folder / "sshd_config")),
        ]
        process = LoggedProcess(f"sshd of {name}", argv, folder / "sshd.log")
        process.wait_line("Server listening", 20.0)
        self.hosts[name] = LabHost(name, number, folder, process, key)
        self.write_known_hosts()
        return self.hosts[name]

    def write_known_hosts(self, keys: Mapping[str, asyncssh.SSHKey] | None = None) -> None:
        """Write the keys of the hosts, or other keys by host."""
        known = {host.name: host.key for host in self.hosts.values()} if keys is None else keys
        lines = [
            f"{self.hosts[name].address} {key.export_public_key('openssh').decode().strip()}"
            for name, key in known.items()
        ]
        (self.folder / "known_hosts").write_text("\n".join(lines) + "\n")

    def data(self, **changes: Mapping[str, Any]) -> dict[str, Any]:
        """A testbed file's data of all hosts, with changes of hosts by name."""
        privileges = "root" if os.getuid() == 0 else "capabilities"
        hosts: dict[str, Any] = {}
        for host in self.hosts.values():
            entry = {
                "ssh": {"host": host.address},
                "interface": "exp0",
                "address": f"{EXPERIMENT}.{host.number}/24",
                "privileges": privileges,
                "switch_port": host.number,
                "work_folder": str(host.folder / "work"),
                "disk_limit": "1 MB",
            }
            change = dict(changes.get(host.name, {}))
            entry["ssh"] = {**entry["ssh"], **change.pop("ssh", {})}  # type: ignore[dict-item]
            hosts[host.name] = {**entry, **change}
        ssh = {
            "user": user_name(),
            "identity_file": str(self.identity),
            "known_hosts": str(self.folder / "known_hosts"),
        }
        return {"ssh": ssh, "hosts": hosts}

    def testbed(self, **changes: Mapping[str, Any]) -> TestbedConfig:
        """The testbed of all hosts, with changes of hosts by name."""
        return TestbedConfig.model_validate(self.data(**changes))

    def _files_of(
        self, folder: Path, users: Sequence[str], sudoers: str | None, shell: str
    ) -> dict[str, str]:
        """Files that the host has in place of the machine's: passwd, and what further users need."""
        uid, gid, name = os.getuid(), os.getgid(), user_name()
        lines = Path("/etc/passwd").read_text().splitlines()
        known = {line.split(":")[0]: line for line in lines}
        known[name] = f"{name}:x:{uid}:{gid}::{folder}:{shell}"
        known |= {user: f"{user}:x:{4242 + index}:65534::/:/bin/sh" for index, user in enumerate(users)}
        passwd = folder / "passwd"
        passwd.write_text("\n".join(known.values()) + "\n")
        passwd.chmod(0o644)
        # No account is locked, as systemd says of nobody where no shadow can be read.
        shadow = folder / "shadow"
        shadow.write_text("".join(f"{user}:*:19000:0:99999:7:::\n" for user in known))
        shadow.chmod(0o600)
        binds = {str(passwd): "/etc/passwd", str(shadow): "/etc/shadow"}
        if sudoers is not None:
            rules = folder / "sudoers"
            rules.write_text(sudoers)
            rules.chmod(0o440)
            binds[str(rules)] = "/etc/sudoers"
        return binds


def descendants(pid: int) -> list[int]:
    """The processes below a process, by their ids in this PID namespace."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        # A process, or one of its threads, may end at any moment.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    children = [int(child) for child in (task / "children").read_text().split()]
                    found += children
                    waiting += children
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
