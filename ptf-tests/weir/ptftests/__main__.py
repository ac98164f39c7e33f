# SPDX-License-Identifier: Apache-2.0
"""Run the PTF tests: `python -m weir.ptftests --target embedded [TEST…]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from weir.controlplane.config.values import BFRUNTIME
from weir.controlplane.errors import ControlPlaneError
from weir.controlplane.pipeline import NAME
from weir.controlplane.shipped import pipeline_directory
from weir.ptf.program import PtfMissingError
from weir.ptftests.capabilities import TARGETS
from weir.ptftests.config import PortMapError, RunConfig, Tls, read_port_map
from weir.ptftests.model.chips import CHIPS
from weir.ptftests.run_ptf import ptf_program, run_ptf
from weir.ptftests.switch import STARTERS, WITHOUT_LINKS, problem
from weir.topo.sandbox import SandboxError, run_in_sandbox

EXIT_USAGE = 2


def arguments() -> argparse.ArgumentParser:
    """The runner's command line."""
    parser = argparse.ArgumentParser(prog="python -m weir.ptftests", description=__doc__)
    parser.add_argument("--target", choices=sorted(TARGETS), default="embedded")
    parser.add_argument(
        "--address",
        help="P4Runtime of a switch that runs already, HOST:PORT, or bfruntime://HOST",
    )
    parser.add_argument("--device-id", type=int, help="its device (default 1, over BfRuntime 0)")
    parser.add_argument("--port-map", type=Path, help="JSON: ptf_port, p4_port and iface_name of each port")
    parser.add_argument(
        "--tls-ca", help="PEM: authority of the switch's certificate; the session then uses TLS"
    )
    parser.add_argument("--tls-cert", help="PEM: certificate to show to the switch (mutual TLS)")
    parser.add_argument("--tls-key", help="PEM: its private key")
    parser.add_argument("--p4info", type=Path, help="default: weir's")
    parser.add_argument(
        "--program",
        type=Path,
        help="what the switch runs (default: weir's); over BfRuntime the folder that p4c wrote",
    )
    parser.add_argument("--logs", type=Path, default=Path("target/ptf"), help="folder (default target/ptf)")
    parser.add_argument(
        "tests", nargs="*", help="groups or tests, such as `drops` or `drops.Name` (default all)"
    )
    return parser


def main() -> int:
    """0: no test failed, or the target cannot run here, which is printed; 1: one failed; 2: bad usage."""
    given = arguments().parse_args()
    p4info, program = _program(given)
    if given.target in CHIPS and given.program is None and not program.is_file():
        print(f"SKIP all tests on {given.target}: {problem(given.target) or 'p4c-barefoot is not on PATH'}")
        return 0
    try:
        ptf_program()
    except PtfMissingError as error:
        print(f"ptf: {error}", file=sys.stderr)
        return EXIT_USAGE
    logs = (given.logs / given.target).resolve()
    logs.mkdir(parents=True, exist_ok=True)
    bfruntime = (given.address or "").startswith(BFRUNTIME)
    for path, there in ((p4info, p4info.is_file()), (program, program.is_dir() or not bfruntime)):
        if not there or not path.exists():
            print(f"ptf: {path}: no such file; valid: the output of p4c (make p4)", file=sys.stderr)
            return EXIT_USAGE
    try:
        if given.address is None and given.port_map is None:
            return _on_a_started_switch(given, p4info, program, logs)
        return _on_a_running_switch(given, p4info, program, logs)
    except (SandboxError, PortMapError, ControlPlaneError) as error:
        print(f"ptf: {error}", file=sys.stderr)
        return EXIT_USAGE


def _program(given: argparse.Namespace) -> tuple[Path, Path]:
    """P4Info and program, by default weir's for the target."""
    built = pipeline_directory()
    p4info, program = built / f"{NAME}.p4info.txtpb", built / f"{NAME}.json"
    if given.target in CHIPS:
        chip = CHIPS[given.target]
        p4info, program = built / f"{chip.name}.p4info.txtpb", chip.program
    return (given.p4info or p4info).resolve(), (given.program or program).resolve()


def _on_a_started_switch(given: argparse.Namespace, p4info: Path, program: Path, logs: Path) -> int:
    target: str = given.target
    if target not in STARTERS:
        print(f"ptf: {target} is not started from here; valid: --address and --port-map", file=sys.stderr)
        return EXIT_USAGE
    why_not = problem(target)
    if why_not is not None:
        print(f"SKIP all tests on {target}: {why_not}")
        return 0
    passed = [target, str(p4info), str(program), str(logs), *given.tests]
    return run_in_sandbox("weir.ptftests.inside", passed, isolated=target not in WITHOUT_LINKS)


def _on_a_running_switch(given: argparse.Namespace, p4info: Path, program: Path, logs: Path) -> int:
    if given.address is None or given.port_map is None:
        print("ptf: valid: --address and --port-map together, or neither", file=sys.stderr)
        return EXIT_USAGE
    ports = read_port_map(given.port_map)
    tls = Tls(given.tls_ca, given.tls_cert, given.tls_key) if given.tls_ca else None
    device_id = given.device_id
    if device_id is None:
        device_id = 0 if given.address.startswith(BFRUNTIME) else 1
    config = RunConfig(given.target, given.address, device_id, ports, str(p4info), str(program), tls)
    return run_ptf(config, given.tests, logs)


if __name__ == "__main__":
    sys.exit(main())
