# SPDX-License-Identifier: Apache-2.0
"""Programs that the tests run in the sandbox: hosts with sshd, and what weir says of them."""

import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest.mock
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import asyncssh

from weir.testbed.check import HostReport, check_testbed
from weir.testbed.connection import Connection, connect
from weir.testbed.control import control
from weir.testbed.errors import HostError
from weir.testbed.inventory import TestbedConfig
from weir.topo.process import LoggedProcess
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir_tests.testbed.lab import Lab, descendants

Scenario = Callable[[Lab], dict[str, Any]]


def checked(testbed: TestbedConfig) -> dict[str, Any]:
    """The checks of each host: name → (ok, found, mend)."""
    reports: list[HostReport] = asyncio.run(check_testbed(testbed))
    return {
        report.name: {
            "ok": report.ok,
            "clock": None if report.clock is None else [report.clock.offset_ns, report.clock.error_ns],
            "checks": {one.name: [one.ok, one.found, one.mend] for one in report.findings},
        }
        for report in reports
    }


def healthy(lab: Lab) -> dict[str, Any]:
    """Two hosts that lack nothing."""
    for name in ("a", "b"):
        lab.add(name)
    before = [lab.hosts[name].run("ethtool", "-k", "exp0") for name in lab.hosts]
    found = checked(lab.testbed())
    after = [lab.hosts[name].run("ethtool", "-k", "exp0") for name in lab.hosts]
    return {"hosts": found, "unchanged": before == after}


def command_line(lab: Lab) -> dict[str, Any]:
    """`weir doctor --testbed` of a healthy and of an unreachable host, as JSON and as text."""
    from weir.cli.main import run_cli

    lab.add("a")
    file = lab.folder / "testbed.yaml"
    file.write_text(json.dumps(lab.data()))  # JSON is YAML
    codes, shown = [], []
    for arguments in (["--json"], []):
        text = io.StringIO()
        with redirect_stdout(text):
            codes.append(run_cli(["doctor", "--testbed", str(file), *arguments]))
        shown.append(text.getvalue())
    file.write_text(json.dumps(lab.data(a={"ssh": {"port": 2222}})))
    text = io.StringIO()
    with redirect_stdout(text):
        codes.append(run_cli(["doctor", "--testbed", str(file)]))
    return {"codes": codes, "json": json.loads(shown[0]), "text": shown[1], "refused": text.getvalue()}


def unreachable(lab: Lab) -> dict[str, Any]:
    """Every way in which there is no connection, one host each."""
    for name in ("refused", "unknown", "changed", "stranger", "locked", "keyless"):
        lab.add(name)
    other = asyncssh.generate_private_key("ssh-ed25519")
    keys = {host.name: host.key for host in lab.hosts.values() if host.name != "unknown"}
    lab.write_known_hosts({**keys, "changed": other})
    known_before = (lab.folder / "known_hosts").read_text()
    spaced = lab.folder / "known hosts"
    spaced.write_text(known_before)
    stranger = lab.folder / "stranger.key"
    other.write_private_key(stranger)
    locked = lab.folder / "locked.key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "a secret", "-f", locked], check=True)
    testbed = lab.testbed(
        refused={"ssh": {"port": 2222}},
        unknown={"ssh": {"known_hosts": str(spaced)}},
        stranger={"ssh": {"identity_file": str(stranger)}},
        locked={"ssh": {"identity_file": str(locked)}},
        keyless={"ssh": {"identity_file": str(lab.folder / "none")}},
    )
    found = checked(testbed)
    return {"hosts": found, "kept": (lab.folder / "known_hosts").read_text() == known_before}


def no_answer(lab: Lab) -> dict[str, Any]:
    """A host whose sshd hangs."""
    host = lab.add("a")
    pids = descendants(host.sshd.pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    return {"said": asyncio.run(_failure(lab.testbed(), timeout_s=0.5))}


async def _failure(testbed: TestbedConfig, timeout_s: float) -> str:
    try:
        async with connect("a", testbed.ssh_of("a"), timeout_s=timeout_s):
            return "connected"
    except HostError as error:
        return str(error)


def lacking(lab: Lab) -> dict[str, Any]:
    """Hosts that lack something each: tcpdump, disk, offloads that can be turned off, the address, a link."""
    tools = lab.folder / "tools"
    tools.mkdir()
    for name in ("python3", "iperf3", "sh", "gzip"):
        (tools / name).symlink_to(str(shutil.which(name, path="/usr/bin:/bin")))
    lab.add("untooled", config=[f"SetEnv PATH={tools}"])
    lab.add("full", tmpfs="size=64k,mode=0700")
    lab.add("fixed")
    lab.add("elsewhere")
    lab.add("down").run("ip", "link", "set", "exp0", "down")
    lab.add("small").run("ip", "link", "set", "exp0", "mtu", "1400")
    lab.add("unzipped", without=["gzip"])
    lab.add("early", config=lab.old_iperf3())
    testbed = lab.testbed(
        fixed={"interface": "lo", "address": "127.0.0.1/8"},
        elsewhere={"address": "10.9.9.9/24"},
        down={"mac": "02:00:00:00:00:05"},
        small={"interface": "exp7"},
    )
    return {"hosts": checked(testbed)}


def files_of_the_user(lab: Lab) -> dict[str, Any]:
    """A known_hosts in Latin-1, a revoked host key, a name that DNS cannot have, a damaged ~/.ssh/id_rsa."""
    for name in ("latin", "revoked", "named", "damaged"):
        lab.add(name)
    known = (lab.folder / "known_hosts").read_bytes()
    latin, revoked = lab.folder / "known_latin", lab.folder / "known_revoked"
    latin.write_bytes("höst ssh-ed25519 AAAA\n".encode("latin-1") + known)
    key = lab.hosts["revoked"].key.export_public_key("openssh")
    revoked.write_bytes(b"@revoked * " + key + known)
    home = lab.folder / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nrubbish\n")
    data = lab.data(
        latin={"ssh": {"known_hosts": str(latin)}},
        revoked={"ssh": {"known_hosts": str(revoked)}},
        named={"ssh": {"host": f"{'x' * 64}.example"}},
    )
    identity = data["ssh"].pop("identity_file")
    for name in ("latin", "revoked", "named"):
        data["hosts"][name]["ssh"]["identity_file"] = identity
    with unittest.mock.patch.dict(os.environ, {"HOME": str(home)}):
        return {"hosts": checked(TestbedConfig.model_validate(data))}


def busy_agent(lab: Lab) -> dict[str, Any]:
    """An agent with more keys than sshd lets a client try, with an identity file and without."""
    lab.add("by_file")
    lab.add("by_agent")
    data = lab.data()
    data["hosts"]["by_file"]["ssh"]["identity_file"] = data["ssh"].pop("identity_file")
    variables = {"SSH_AUTH_SOCK": str(lab.folder / "socket"), "HOME": str(lab.folder)}
    agent = LoggedProcess(
        "ssh-agent", ["ssh-agent", "-D", "-a", variables["SSH_AUTH_SOCK"]], lab.folder / "agent.log"
    )
    try:
        agent.wait_line("SSH_AUTH_SOCK", 20.0)
        with unittest.mock.patch.dict(os.environ, variables):
            for number in range(7):
                key = lab.folder / f"key{number}"
                asyncssh.generate_private_key("ssh-ed25519").write_private_key(key)
                key.chmod(0o600)
                subprocess.run(["ssh-add", "-q", key], check=True)
            return {"hosts": checked(TestbedConfig.model_validate(data))}
    finally:
        agent.stop()


def shells(lab: Lab) -> dict[str, Any]:
    """Login shells that print, or end before they run a command; and a Python that is too old."""
    lab.add("chatty", shell="/bin/bash")
    (lab.hosts["chatty"].folder / ".bashrc").write_text("echo Welcome to the rack\nprintf 'loading... '\n")
    lab.add("exits", shell="/bin/bash")
    (lab.hosts["exits"].folder / ".bashrc").write_text("exit\n")
    lab.add("closed", shell="/usr/sbin/nologin")
    tools = lab.folder / "tools"
    tools.mkdir()
    old = "#!/bin/sh\nshift 3; code=$1; shift\n"
    old += 'exec /usr/bin/python3 -I -S -c "import sys; sys.version_info = (3, 6, 8); $code" "$@"\n'
    (tools / "python3").write_text(old)
    (tools / "python3").chmod(0o755)
    lab.add("old", config=[f"SetEnv PATH={tools}:/usr/bin:/bin"])
    testbed = lab.testbed()

    async def ran(name: str) -> str:
        async with (
            connect(name, testbed.ssh_of(name)) as connection,
            control(connection, testbed.hosts[name], testbed.privileges_of(name)),
        ):
            return "ran"

    async def main() -> dict[str, str]:
        said = {}
        for name in lab.hosts:
            try:
                said[name] = await ran(name)
            except HostError as error:
                said[name] = str(error)
        return said

    return {"hosts": checked(testbed), "helper": asyncio.run(main())}


def sudo(lab: Lab) -> dict[str, Any]:
    """Users who log in as such and get root by sudo: with and without the right to."""
    rules = "Defaults !requiretty\nroot ALL=(ALL) ALL\nalice ALL=(root) NOPASSWD: ALL\nbob ALL=(root) ALL\n"
    rules += "carol ALL=(root) NOPASSWD: ALL, !/usr/bin/python3\n"
    for name in ("may", "must_not", "not_python"):
        lab.add(name, users=("alice", "bob", "carol"), sudoers=rules)
    change = {"privileges": "sudo"}
    testbed = lab.testbed(
        may={**change, "ssh": {"user": "alice"}},
        must_not={**change, "ssh": {"user": "bob"}},
        not_python={**change, "ssh": {"user": "carol"}},
    )
    return {"hosts": checked(testbed)}


def sudo_without_root(lab: Lab) -> dict[str, Any]:
    """sudo of a user who has no right to it, or where it cannot become root at all."""
    lab.add("a", sudoers="root ALL=(ALL) ALL\n" if os.getuid() == 0 else None)
    return {"hosts": checked(lab.testbed(a={"privileges": "sudo"}))}


def commands(lab: Lab) -> dict[str, Any]:
    """Words of commands arrive as they are; output, time and the connection have limits."""
    host = lab.add("a")
    testbed = lab.testbed()
    words = ["a b", "$(id)", "';x", '"', "", "*", "new\nline", "ünï"]
    echo = "import json,sys; print(json.dumps([sys.argv[1:], sys.stdin.read()]))"

    async def main() -> dict[str, Any]:
        async with connect("a", testbed.ssh_of("a")) as connection:
            done = await connection.run(["python3", "-c", echo, *words], stdin=b"input")
            failed = await connection.run(["sh", "-c", "echo reason >&2; exit 7"])
            missing = await connection.run(["no-such-program"])
            return {
                "echoed": json.loads(done.stdout) == [words, "input"],
                "failed": [failed.code, failed.complaint],
                "missing": missing.code,
                "large": await _said(connection, ["head", "-c", "3000000", "/dev/zero"]),
                "slow": await _said(connection, ["sleep", "1000"], timeout_s=0.3),
                "alive": (await connection.run(["true"])).code,
                "cut": await cut(connection),
                "afterwards": await _said(connection, ["true"]),
            }

    async def cut(connection: Connection) -> str:
        running = asyncio.create_task(_said(connection, ["sleep", "2000"]))
        while not host.processes("sleep 2000"):
            await asyncio.sleep(0.01)
        host.cut()
        return await running

    return asyncio.run(main())


async def _said(connection: Connection, argv: list[str], **options: Any) -> str:
    try:
        await connection.run(argv, **options)
    except HostError as error:
        return str(error)
    return "no error"


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        healthy,
        command_line,
        unreachable,
        no_answer,
        lacking,
        files_of_the_user,
        busy_agent,
        shells,
        sudo,
        sudo_without_root,
        commands,
    )
}


def main(stop: StopToken) -> int:
    """Run the scenario named on the command line."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    with Lab(folder / "lab") as lab:
        result = SCENARIOS[name](lab)
    (folder / "result.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    inside(main)
