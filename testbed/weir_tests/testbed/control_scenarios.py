# SPDX-License-Identifier: Apache-2.0
"""Programs that the tests run in the sandbox: changes of hosts, every way to end them, and what is left."""

import asyncio
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import weir.testbed.control
from weir.testbed.connection import connect
from weir.testbed.control import HostControl, control
from weir.testbed.errors import HostError, UnreachableError
from weir.testbed.hosts import RemoteHosts
from weir.testbed.inventory import TestbedConfig
from weir.topo.hosts import Fetched
from weir.topo.process import run_tool
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir_tests.testbed.lab import CONTROL, Lab, LabHost, descendants
from weir_tests.testbed.pcaps import read, written

Scenario = Callable[[Lab], Coroutine[Any, Any, dict[str, Any]]]
SYSCTL = "net.ipv4.tcp_rmem"
GIVE_UP_S = 20.0
LARGE_BYTES = 40_000_000
REDUCED_RECORDS = 400_000


def state(host: LabHost) -> list[str]:
    """All that the helper may change of a host."""
    return [
        host.run("ethtool", "-k", "exp0"),
        host.run("sysctl", SYSCTL, "net.ipv4.tcp_ecn", "net.ipv4.conf.exp0.rp_filter"),
        *(
            host.run("ip", family, what, "show", "dev", "exp0")
            for family in ("-4", "-6")
            for what in ("addr", "route")
        ),
        host.run("ip", "-6", "neigh", "show", "dev", "exp0", "nud", "permanent"),
    ]


@asynccontextmanager
async def helper(testbed: TestbedConfig, name: str = "a", **options: Any) -> AsyncIterator[HostControl]:
    """The helper of a host."""
    entry, privileges = testbed.hosts[name], testbed.privileges_of(name)
    async with (
        connect(name, testbed.ssh_of(name)) as connection,
        control(connection, entry, privileges, **options) as running,
    ):
        yield running


async def change_all(running: HostControl, host: LabHost) -> bool:
    """Make a change of each kind, start two programs; returns whether all is in effect."""
    await running.turn_offloads_off("exp0")
    await running.set_sysctl(SYSCTL, "4096 131072 67108864")
    await running.set_sysctl("net.ipv4.tcp_ecn", "1")
    await running.add_address("exp0", "10.7.7.7/24")
    await running.add_address("exp0", "2001:db8:7::7/64")
    await running.add_route("10.8.0.0/16", "exp0", via="10.7.7.8")
    await running.add_route("2001:db8:8::/48", "exp0")
    await running.start("sink", ["iperf3", "--server"])
    await running.start("capture", ["tcpdump", "-i", "exp0", "-w", "capture.pcap"])
    features, sysctls, *shown = state(host)
    return (
        "tcp-segmentation-offload: off" in features
        and "tx-checksumming: off" in features
        and "67108864" in sysctls
        and all(any(words in text for text in shown) for words in ("10.7.7.7/24", "10.8.0.0/16 via 10.7.7.8"))
        and all(any(words in text for text in shown) for words in ("2001:db8:7::7/64", "2001:db8:8::/48"))
        and len(host.processes("iperf3 --server")) == 1
    )


def programs(host: LabHost) -> list[int]:
    """The programs of `change_all` that run."""
    return host.processes("iperf3 --server") + host.processes("capture.pcap")


def helpers(host: LabHost) -> list[int]:
    """The helper's processes: the Python, not a shell or sudo around it."""
    return [pid for pid in descendants(host.sshd.pid) if _name(pid).startswith("python3")]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def until(condition: Callable[[], bool]) -> bool:
    """Wait for a condition; returns False if it does not come."""
    give_up = asyncio.get_running_loop().time() + GIVE_UP_S
    while not condition():
        if asyncio.get_running_loop().time() > give_up:
            return False
        await asyncio.sleep(0.02)
    return True


async def asked(lab: Lab) -> dict[str, Any]:
    """The end that is asked for; then the same by an error in the block, and by its cancellation."""
    host = lab.add("a")
    before = state(host)
    async with helper(lab.testbed()) as running:
        effective = await change_all(running, host)
        again = [
            await running.turn_offloads_off("exp0"),
            await running.set_sysctl("net.ipv4.tcp_ecn", "1"),
            await running.add_address("exp0", "10.7.7.7/24"),
            await running.add_route("10.8.0.0/16", "exp0", via="10.7.7.8"),
        ]
        while "listening on" not in await running.stderr("capture"):
            await asyncio.sleep(0.01)
        capture = await running.stop("capture", "SIGINT")
    first = [state(host) == before, programs(host)]
    failed = ""
    try:
        async with helper(lab.testbed()) as running:
            await change_all(running, host)
            raise ValueError("a bug")
    except ValueError as error:
        failed = str(error)
    second = [state(host) == before, programs(host)]
    changed = asyncio.Event()

    async def until_cancelled() -> None:
        async with helper(lab.testbed()) as running:
            await change_all(running, host)
            changed.set()
            await running.wait_over()

    task = asyncio.create_task(until_cancelled())  # as asyncio.run() does at Ctrl-C
    await changed.wait()
    task.cancel()
    await asyncio.wait({task})
    left = sorted(path.name.split("-")[0] for path in (host.folder / "work").iterdir())
    return {
        "effective": effective,
        "again": again,
        "capture": [capture.code, capture.stderr.splitlines()[0]],
        "first": first,
        "failed": failed,
        "second": second,
        "cancelled": [task.cancelled(), state(host) == before, programs(host)],
        "left": left,
    }


async def _ended_by(
    lab: Lab, end: Callable[[LabHost], None], mend: Callable[[LabHost], None] | None = None, **options: Any
) -> dict[str, Any]:
    """Change all, let something end the helper, wait until all is back; and what the next start says."""
    host = lab.add("a")
    before = state(host)
    said, effective, back, gone = "", False, False, False
    try:
        async with helper(lab.testbed(), **options) as running:
            effective = await change_all(running, host)
            end(host)
            gone = await until(lambda: not programs(host) and not helpers(host))
            back = await until(lambda: state(host) == before)
            if mend is not None:
                mend(host)
            await running.wait_over()
            await running.set_sysctl("net.ipv4.tcp_ecn", "1")
    except HostError as error:
        said = str(error)
    while True:
        try:
            async with helper(lab.testbed()) as running:
                start = running.start_report
            break
        except UnreachableError:  # the control network has just come back
            await asyncio.sleep(0.05)
    previous = start.previous or {}
    return {
        "effective": effective,
        "gone": gone,
        "back": back and state(host) == before,
        "said": said,
        "previous": [
            previous.get("end"),
            sorted(previous.get("programs", [])),
            len(previous.get("undone", [])),
        ],
        "left": [*previous.get("left", []), *start.left],
    }


async def cut(lab: Lab) -> dict[str, Any]:
    """The ssh session is killed."""
    return await _ended_by(lab, LabHost.cut)


async def silence(lab: Lab) -> dict[str, Any]:
    """The control network fails: nothing arrives any more, and no connection ends."""

    def down(host: LabHost) -> None:
        run_tool("ip", "link", "set", f"{host.name}-ctl", "down")

    def up(host: LabHost) -> None:
        run_tool("ip", "link", "set", f"{host.name}-ctl", "up")

    return await _ended_by(lab, down, up, watchdog_s=1.0)


async def limit(lab: Lab) -> dict[str, Any]:
    """The time limit passes."""
    return await _ended_by(lab, lambda _: None, limit_s=6.0)


def _signal(number: signal.Signals) -> Callable[[LabHost], None]:
    def send(host: LabHost) -> None:
        for pid in helpers(host):
            os.kill(pid, number)

    return send


async def terminated(lab: Lab) -> dict[str, Any]:
    """SIGTERM to the helper."""
    return await _ended_by(lab, _signal(signal.SIGTERM))


async def hung_up(lab: Lab) -> dict[str, Any]:
    """SIGHUP to the helper."""
    return await _ended_by(lab, _signal(signal.SIGHUP))


async def interrupted(lab: Lab) -> dict[str, Any]:
    """SIGINT to the helper."""
    return await _ended_by(lab, _signal(signal.SIGINT))


async def late(lab: Lab) -> dict[str, Any]:
    """The helper does not run for longer than its watchdog's time, while heartbeats come."""
    host = lab.add("a")
    async with helper(lab.testbed(), watchdog_s=1.0) as running:
        for pid in helpers(host):
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(1.5)
        for pid in helpers(host):
            os.kill(pid, signal.SIGCONT)
        return {"changed": await running.set_sysctl("net.ipv4.tcp_ecn", "1")}


async def stuck(lab: Lab) -> dict[str, Any]:
    """The helper answers nothing any more, while its host's sshd does."""
    host = lab.add("a")
    before = state(host)
    weir.testbed.control.ANSWER_S = 1.0
    said, effective = [], False
    stopped: list[int] = []
    try:
        async with helper(lab.testbed()) as running:
            effective = await change_all(running, host)
            stopped = helpers(host)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            for _ in range(2):
                try:
                    await running.set_sysctl("net.ipv4.tcp_ecn", "0")
                except HostError as error:
                    said.append(str(error))
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    back = await until(lambda: state(host) == before and not programs(host) and not helpers(host))
    return {"said": said, "effective": effective, "back": back}


async def other_ways(lab: Lab) -> dict[str, Any]:
    """Addresses of the experiment in the network of SSH, and in that of another interface."""
    host, _ = lab.add("a"), lab.add("b")
    host.run("ip", "link", "add", "bridge0", "type", "bridge")
    host.run("ip", "address", "add", "10.33.0.1/24", "dev", "bridge0")
    host.run("ip", "link", "set", "bridge0", "up")
    before, said = state(host), {}
    for name, network in (("ssh", CONTROL), ("bridge", "10.33.0")):
        testbed = lab.testbed(a={"address": f"{network}.77/24"}, b={"address": f"{network}.78/24"})

        def enter(testbed: TestbedConfig = testbed) -> str:
            try:
                with RemoteHosts(testbed, {"a": None, "b": None}, StopToken()):
                    return "no error"
            except HostError as error:
                return str(error)

        said[name] = await asyncio.to_thread(enter)
    return {"said": said, "unchanged": state(host) == before}


async def killed(lab: Lab) -> dict[str, Any]:
    """`kill -9` of the helper: it undoes nothing; the next start does."""
    host = lab.add("a")
    before = state(host)
    said, effective = "", False
    escaped: list[int] = []
    try:
        async with helper(lab.testbed()) as running:
            effective = await change_all(running, host)
            # A program that the kernel does not end with its parent, as one that gives up privileges.
            forget = "import ctypes, time; ctypes.CDLL(None).prctl(1, 0, 0, 0, 0); print(1, flush=True); "
            await running.start("escaped", ["python3", "-c", forget + "time.sleep(4000)"], stdout="out")
            await until(lambda: (host.folder / "work" / "out").read_text() == "1\n")
            escaped = host.processes("time.sleep(4000)")
            helper_pid = [pid for pid in helpers(host) if pid not in escaped]
            for pid in helper_pid:
                os.kill(pid, signal.SIGKILL)
            await running.wait_over()
            await running.set_sysctl("net.ipv4.tcp_ecn", "0")
    except HostError as error:
        said = str(error)
    # The kernel ends those that it ends with their parent; tcpdump of root has given up privileges.
    gone = await until(lambda: not host.processes("iperf3 --server"))
    lives = host.processes("time.sleep(4000)") == escaped
    changed = state(host) != before
    async with helper(lab.testbed()) as running:
        report = running.start_report
        back = state(host) == before
        ended = not host.processes("time.sleep(4000)")
    return {
        "effective": effective,
        "said": said,
        "gone": gone,
        "changed": changed,
        "lived": lives and len(escaped) == 1,
        "undone": sorted(report.undone),
        "left": list(report.left),
        "back": back,
        "ended": ended,
    }


async def refusals(lab: Lab) -> dict[str, Any]:
    """What cannot be done is one line, and nothing is changed."""
    tools = lab.folder / "tools"
    tools.mkdir()
    for name in ("python3", "sh"):
        (tools / name).symlink_to(Path("/usr/bin", name))
    full = lab.add("a", tmpfs="size=64k,mode=0700", config=[f"SetEnv PATH={tools}"])
    other = lab.add("b")
    before, said = state(full), {}
    testbed = lab.testbed()

    async def note(what: str, request: Coroutine[Any, Any, Any]) -> None:
        try:
            said[what] = f"no error: {await request}"
        except HostError as error:
            said[what] = str(error)

    async def run_there(program: str) -> None:
        async with connect("a", testbed.ssh_of("a")) as connection:
            await connection.run(["python3", "-c", program, str(full.folder / "work" / "filling")])

    async with helper(testbed) as running:
        await run_there("import sys; open(sys.argv[1], 'wb', 0).write(bytes(10**6))")
        await note("full", running.set_sysctl("net.ipv4.tcp_ecn", "1"))
        # It must live until the helper writes it down: one that has ended needs no record.
        await note("full program", running.start("late", ["python3", "-c", "import time; time.sleep(60)"]))
        await run_there("import os, sys; os.remove(sys.argv[1])")
        await note("fixed", running.turn_offloads_off("lo"))
        await note("tool", running.start("capture", ["tcpdump", "-i", "exp0"]))
        await note("sysctl", running.set_sysctl("net.ipv4.no_such", "1"))
        await note("value", running.set_sysctl("net.ipv4.tcp_ecn", "many"))
        await note("outside", running.set_sysctl("kernel.panic", "1"))
        await note("interface", running.add_address("exp9", "10.1.1.1/24"))
        await note("file", running.start("escape", ["python3", "-c", "1"], stdout="../out"))
        await running.start("filler", ["python3", "-c", "print('x' * 1000000)"], stdout="filling")
        filler = await running.wait("filler")

    async def foreign() -> None:
        async with helper(testbed, "b") as running:
            await note("second", _start_and_end(testbed, "b"))
            folder = str(other.folder / "work" / "other")
            await note("other folder", _start_and_end(lab.testbed(b={"work_folder": folder}), "b"))
            other.run("sysctl", "-w", "net.ipv4.tcp_ecn=0")
            await running.set_sysctl("net.ipv4.tcp_ecn", "1")
            other.run("sysctl", "-w", "net.ipv4.tcp_ecn=2")

    await note("foreign", foreign())
    return {
        "said": said,
        "filler": [filler.code, filler.stderr.strip().splitlines()[-1]],
        "unchanged": state(full) == before,
        "foreign": other.run("sysctl", "-n", "net.ipv4.tcp_ecn").strip(),
    }


async def _start_and_end(testbed: TestbedConfig, name: str) -> None:
    async with helper(testbed, name):
        pass


async def sudo(lab: Lab) -> dict[str, Any]:
    """The helper is root's by sudo of an ordinary user; the session is killed."""
    rules = "root ALL=(ALL) ALL\nalice ALL=(root) NOPASSWD: ALL\nbob ALL=(root) ALL\n"
    host = lab.add("a", users=("alice", "bob"), sudoers=rules)
    before, change = state(host), {"privileges": "sudo"}
    testbed = lab.testbed(a={**change, "ssh": {"user": "alice"}})
    effective = back = gone = False
    said = refused = ""
    try:
        async with helper(testbed) as running:
            effective = await change_all(running, host)
            host.cut()
            gone = await until(lambda: not programs(host) and not helpers(host))
            back = await until(lambda: state(host) == before)
            await running.wait_over()
            await running.set_sysctl("net.ipv4.tcp_ecn", "1")
    except HostError as error:
        said = str(error)
    try:
        await _start_and_end(lab.testbed(a={**change, "ssh": {"user": "bob"}}), "a")
    except HostError as error:
        refused = str(error)
    return {"effective": effective, "gone": gone, "back": back, "said": said, "refused": refused}


async def fetched(lab: Lab) -> dict[str, Any]:
    """A connection that breaks while a file comes from a host."""
    host = lab.add("a")
    source, target = host.folder / "work" / "run-large.pcap", lab.folder / "large.pcap"
    source.write_bytes(os.urandom(LARGE_BYTES))  # does not become smaller
    source.chmod(0o600)
    wanted = hashlib.sha256(source.read_bytes()).hexdigest()
    packed = target.with_name("large.pcap.packed")
    # Setting up deletes what earlier runs have left; this file is of this run.
    kept = source.rename(source.with_name("kept"))

    def use() -> tuple[int, int, bool]:
        with RemoteHosts(lab.testbed(a={"disk_limit": "100 MB"}), {"a": None}, StopToken()) as hosts:
            kept.rename(source)
            fetching = threading.Thread(target=hosts.fetch, args=("a", target))
            fetching.start()
            give_up = time.monotonic() + GIVE_UP_S
            while not packed.exists() or packed.stat().st_size < 2**20:
                assert time.monotonic() < give_up
                time.sleep(0.001)
            host.cut()
            came = least = packed.stat().st_size
            while packed.exists() and packed.stat().st_size < LARGE_BYTES:
                least = min(least, packed.stat().st_size)
                time.sleep(0.001)
            fetching.join()
            return came, least, source.with_name("run-large.pcap.gz").exists()

    came, least, left = await asyncio.to_thread(use)
    same = hashlib.sha256(target.read_bytes()).hexdigest() == wanted
    return {"came": came, "least": least, "left": left, "same": same, "packed": packed.exists()}


async def no_room(lab: Lab) -> dict[str, Any]:
    """A file for which this machine has no space."""
    host = lab.add("a")
    here, source = lab.folder / "here", host.folder / "work" / "run-large.pcap"
    here.mkdir()
    run_tool("mount", "-t", "tmpfs", "-o", "size=1m", "none", str(here))

    def use() -> tuple[str, bool]:
        with RemoteHosts(lab.testbed(), {"a": None}, StopToken()) as hosts:
            source.write_bytes(os.urandom(4_000_000))
            source.chmod(0o600)
            try:
                hosts.fetch("a", here / "large.pcap")
            except OSError as error:
                return str(error), source.with_name("run-large.pcap.gz").exists()
        return "", False

    said, kept = await asyncio.to_thread(use)
    return {"said": said.replace(str(here), "HERE"), "kept": kept}


async def reduced(lab: Lab) -> dict[str, Any]:
    """A connection that breaks while a host reduces a capture to its headers."""
    host = lab.add("a")
    source, target = host.folder / "work" / "run-large.pcap", lab.folder / "large.pcap"
    kept = source.with_name("kept")
    written(kept, [(number * 1000, 1514, bytes(60)) for number in range(REDUCED_RECORDS)])
    kept.chmod(0o600)
    size = kept.stat().st_size

    def use() -> tuple[bool, list[Fetched], list[str]]:
        found: list[Fetched] = []
        with RemoteHosts(lab.testbed(a={"disk_limit": "100 MB"}), {"a": None}, StopToken()) as hosts:
            kept.rename(source)
            fetching = threading.Thread(
                target=lambda: found.append(hosts.fetch("a", target, headers_only=True))
            )
            fetching.start()
            give_up = time.monotonic() + GIVE_UP_S
            while not source.with_name("run-large.pcap.unfinished").exists():
                assert time.monotonic() < give_up
                time.sleep(0.001)
            host.cut()
            whole = source.exists()
            fetching.join()
            return whole, found, [path.name for path in source.parent.glob("run-*")]

    whole, found, left = await asyncio.to_thread(use)
    came = [one.size == size and one.travelled < size // 100 for one in found]
    return {"whole": whole, "records": len(read(target)), "came": came, "left": left}


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        asked,
        cut,
        silence,
        limit,
        terminated,
        hung_up,
        interrupted,
        late,
        stuck,
        other_ways,
        killed,
        refusals,
        sudo,
        fetched,
        reduced,
        no_room,
    )
}


def main(stop: StopToken) -> int:
    """Run the scenario named on the command line."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    with Lab(folder / "lab") as lab:
        result = asyncio.run(SCENARIOS[name](lab))
    (folder / "result.json").write_text(json.dumps(result))
    return 0


if __name__ == "__main__":
    inside(main)
