# SPDX-License-Identifier: Apache-2.0
"""`weir doctor`: checks the requirements of weir on this machine, and names the command that fixes each."""

from __future__ import annotations

import importlib
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from weir.cli import options
from weir.cli.doctor_switch import switch_command
from weir.cli.doctor_testbed import testbed_command
from weir.cli.errors import InputError
from weir.controlplane.errors import PipelineError
from weir.rundir.software import repair_command, weir_version
from weir.topo.sandbox import SandboxError, run_in_sandbox, sandbox_problem
from weir.topo.tools import TOOLS, ToolMissingError, find_own_program, find_tool

if TYPE_CHECKING:
    from weir.kernel.store import KernelStore

CONGESTION_CONTROLS = ("bbr", "cubic")
"""Congestion controls of the shipped experiments."""

_VERSION_FLAG = {"ip": "-V", "tcpdump": "--version", "iperf3": "--version", "ethtool": "--version"}
_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement, or optional tool, and the command that installs it."""

    name: str
    required: bool
    ok: bool
    found: str
    mend: str | None = None


def doctor(
    testbed: Annotated[
        Path | None,
        typer.Option("--testbed", metavar="FILE", help="Check the hosts of a testbed over SSH instead."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check a switch instead: tofino or tofino2.")
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="bfruntime://HOST[:PORT]", help="The bf_switchd of that switch."),
    ] = None,
    device_id: Annotated[
        int, typer.Option(min=0, max=options.LARGEST_BFRUNTIME_ID, help="Id of its chip.")
    ] = 0,
    as_json: options.AsJson = False,
) -> int:
    """Check what this machine can and cannot do, each with the command that mends it.

    Tries namespaces, interfaces, packet sockets and congestion controls for real. Exit code 1 when something
    that a run needs is missing. With --testbed, the same of each host of the file; nothing there is changed.
    With --target and --address, a Tofino before the first apply; nothing there is changed either.
    """
    if testbed is not None and (target is not None or address is not None):
        raise InputError("--testbed with --target or --address; valid: hosts, or a switch")
    if target is not None or address is not None:
        return switch_command(target, address, device_id, as_json=as_json, console=Console())
    if testbed is not None:
        return testbed_command(testbed, as_json=as_json, console=Console())
    return doctor_command(as_json=as_json, console=Console())


def doctor_command(*, as_json: bool, console: Console) -> int:
    """Run all checks and print them; returns exit code 1 if a required one fails."""
    checks = list(run_checks())
    healthy = all(check.ok for check in checks if check.required)
    if as_json:
        print(
            json.dumps({"schema": 1, "ok": healthy, "checks": [asdict(check) for check in checks]}, indent=1)
        )
    else:
        console.print(table_of(checks))
        for check in checks:
            if not check.ok and check.mend:
                console.print(f"{check.name}: [bold]{check.mend}[/bold]", highlight=False, soft_wrap=True)
        console.print("Ready to run." if healthy else "[red]Something required is missing.[/red]")
    return 0 if healthy else 1


def run_checks() -> Iterator[Check]:
    """All checks, in the order in which a user should fix them."""
    yield python_check(sys.version_info[:3])
    yield from tool_checks()
    yield from sandbox_checks()
    yield from weir_checks(weir_version())
    yield pipeline_check(None)
    yield from optional_checks()


def python_check(version: tuple[int, int, int]) -> Check:
    """The version of Python."""
    text = ".".join(map(str, version))
    return Check("Python", True, version >= (3, 11, 0), text, "install Python 3.11 or newer")


def tool_checks() -> Iterator[Check]:
    """System programs."""
    for name, package in TOOLS.items():
        mend = f"sudo apt-get install {package}"
        try:
            path = find_tool(name)
        except ToolMissingError:
            yield Check(name, True, False, "not installed", mend)
            continue
        yield Check(name, True, True, version_of([path, _VERSION_FLAG.get(name, "--version")]) or path)


def sandbox_checks() -> Iterator[Check]:
    """Namespaces, and the kernel features that a run needs, tried inside of namespaces."""
    problem = sandbox_problem_here()
    kernel = f"Linux {platform.release()}"
    if problem is not None:
        cure = problem.rpartition(": ")[2]
        yield Check("namespaces", True, False, problem, cure)
    else:
        yield Check("namespaces", True, True, kernel)
    tried = {} if problem is not None else probe_sandbox()
    mends = {
        "veth": "sudo modprobe veth",
        "AF_PACKET": "sudo modprobe af_packet",
        **{name: f"sudo modprobe tcp_{name}" for name in CONGESTION_CONTROLS},
    }
    for name, mend in mends.items():
        label = f"congestion control {name}" if name in CONGESTION_CONTROLS else name
        result = tried.get(name, {"ok": False, "found": "not tried: no namespaces"})
        yield Check(label, True, bool(result["ok"]), str(result["found"]), None if result["ok"] else mend)
    yield privileges_check(tried.get("privileges", {"ok": False, "found": "not tried"}))


def privileges_check(tried: Mapping[str, object]) -> Check:
    """The privileges that the switch gives up in this kernel, as it prints them."""
    found = str(tried["found"])
    whole = bool(tried["ok"]) and "any file" not in found and "all system calls" not in found
    mend = "a kernel with Landlock (boot option lsm=landlock,…) and seccomp; docs/privileges.md"
    return Check("privileges given up", False, whole, found, None if whole else mend)


def sandbox_problem_here() -> str | None:
    """Why this user cannot create namespaces, or None."""
    try:
        return sandbox_problem()
    except ToolMissingError as error:
        return str(error)


def probe_sandbox() -> dict[str, dict[str, object]]:
    """Try interfaces, packet sockets and congestion controls in a sandbox, in the way of a run."""
    with tempfile.TemporaryDirectory(prefix="weir-doctor-") as folder:
        answer = Path(folder) / "probe.json"
        try:
            run_in_sandbox("weir.cli.sandbox_probe", [str(answer), *CONGESTION_CONTROLS])
            tried: dict[str, dict[str, object]] = json.loads(answer.read_text())
        except (SandboxError, OSError, ValueError) as error:
            failed: dict[str, object] = {"ok": False, "found": f"the probe failed: {error}"}
            return dict.fromkeys(("veth", "AF_PACKET", "privileges", *CONGESTION_CONTROLS), failed)
    return tried


def weir_checks(version: str) -> Iterator[Check]:
    """weir's own programs and extension modules, and whether they are of this version."""
    for name in ("weir-switch", "weir-collector"):
        try:
            path = find_own_program(name)
        except ToolMissingError:
            yield Check(name, True, False, "not installed", repair_command())
            continue
        found = version_of([str(path), "--version"])
        yield version_check(name, found.removeprefix(name).strip() if found else None, version)
    yield module_check("weir_core", version)


def module_check(name: str, version: str, required: bool = True) -> Check:
    """Whether an extension module is installed, in this version."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return Check(name, required, False, "not installed", repair_command())
    return version_check(name, getattr(module, "__version__", None), version, required)


def version_check(name: str, found: str | None, version: str, required: bool = True) -> Check:
    """Whether a compiled part of weir has the version of the Python packages."""
    if found is None:
        return Check(name, required, False, "does not say its version", repair_command())
    if found != version:
        return Check(name, required, False, f"{found}, but weir is {version}", repair_command())
    return Check(name, required, True, found)


def pipeline_check(directory: Path | None) -> Check:
    """The compiled pipeline."""
    from weir.controlplane.pipeline import load_pipeline

    try:
        pipeline = load_pipeline(directory)
    except PipelineError as error:
        return Check("pipeline", True, False, str(error), repair_command("make p4"))
    return Check("pipeline", True, True, f"{pipeline.schema.name} {pipeline.schema.version}")


def optional_checks() -> Iterator[Check]:
    """Parts and tools that a run does not need."""
    # The switch in virtual time, `weir.Switch`; `make demo` does not build it.
    yield module_check("weir_softswitch", weir_version(), required=False)
    yield virtual_time_check_here()
    uses = {
        "p4c": "to change the pipeline: https://github.com/p4lang/p4c",
        "simple_switch_grpc": "for target bmv2: https://github.com/p4lang/behavioral-model",
    }
    for name, use in uses.items():
        path = shutil.which("p4c-bm2-ss" if name == "p4c" else name) or shutil.which(name)
        yield Check(name, False, path is not None, path or "not on PATH", None if path else use)


def virtual_time_check_here() -> Check:
    """That of the user's kernels, if the user can have any."""
    # Loads pydantic, which other commands should not wait for.
    from weir.kernel.errors import KernelInputError
    from weir.kernel.store import KernelStore, kernels_folder

    try:
        store = KernelStore(kernels_folder())
    except KernelInputError as error:
        problem, _, mend = str(error).partition("; valid: ")
        return Check("virtual time", False, False, problem, mend)
    return virtual_time_check(store)


def virtual_time_check(store: KernelStore) -> Check:
    """Boots the kernel of runs in virtual time, if one is built."""
    from weir.kernel.boot import first_boot
    from weir.kernel.errors import KernelError

    name = "virtual time"
    kernels = [kernel for kernel in store.kernels() if kernel.record.name]
    if not kernels:
        return Check(name, False, False, f"no kernel in {store.folder}", "weir kernel build")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weir-doctor-") as folder:
        try:
            found = first_boot(kernels[0].program, Path(folder), Path(folder))
        except KernelError as error:
            return Check(name, False, False, f"{kernels[0].record.name}: {error}", "weir kernel build")
    took_s = time.monotonic() - began
    names = ", ".join(str(kernel.record.name) for kernel in kernels)
    return Check(name, False, True, f"Linux {found.version} boots in {took_s:.1f} s; kernels: {names}")


def version_of(argv: list[str]) -> str | None:
    """The first line of a program's version output, or None if it fails or prints nothing."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=_PATIENCE_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip() if lines and done.returncode == 0 else None


def table_of(checks: list[Check]) -> Table:
    """The checks as a table for the terminal."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "check", "found"):
        table.add_column(heading, overflow="fold")
    for check in checks:
        mark = "[green]ok[/green]" if check.ok else "[red]missing[/red]" if check.required else "optional"
        table.add_row(mark, check.name, check.found)
    return table
