# SPDX-License-Identifier: Apache-2.0
"""Run PTF tests of your P4 program on weir-switch, without root.

The switch, a link for each port and PTF run in network namespaces of their own, which disappear afterwards.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from weir.controlplane.errors import PipelineError
from weir.controlplane.pipeline import check_program, read_schema
from weir.ptf.program import PtfMissingError, find_ptf
from weir.ptf.settings import (
    EXIT_USAGE,
    SETTINGS,
    Settings,
    UsageError,
    read_param,
    read_ports,
)
from weir.ptf.switch import DEFAULT_CPU_PORT
from weir.topo.sandbox import SandboxError, run_in_sandbox
from weir.topo.tools import ToolMissingError, find_own_program

_INSTALL = "pip install 'weir-policer[ptf]'"
_EPILOG = """\
The tests get these parameters (ptf.testutils.test_param_get):
  grpcaddr   address of the switch's P4Runtime service, without TLS
  p4info     path of the P4Info
  config     path of the BMv2 JSON
  device_id  id of the switch (--device-id)
  cpu_port   port whose frames are packet-ins (--cpu-port)
and those of --test-params. PTF's port N of device 0 is the switch's port N.

In the folder of --logs: weir-switch.log, stats.json (the switch's counters), ptf.log,
ptf.pcap (every frame), results.jsonl, and junit.xml for CI systems.

Examples:
  Compile, then run all tests of a folder:
    p4c-bm2-ss --p4runtime-files build/nat.p4info.txtpb -o build/nat.json nat.p4
    python -m weir.ptf --program build/nat.json --p4info build/nat.p4info.txtpb --tests ptf

  One file of tests without one test, each for at most 30 s, with a folder of modules to import:
    python -m weir.ptf … --tests ptf nat ^nat.SlowTest -- --test-case-timeout 30 --pypath lib

  Tests that load the program themselves, with libraries of another environment:
    python -m weir.ptf … --no-push --python tests-venv/bin/python

Exit codes: 0 no test failed, 1 a test failed or the switch ended, 2 nothing could be tested
(wrong arguments, a program that the switch refuses, no PTF, no tests).
"""


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m weir.ptf",
        usage="%(prog)s --program JSON --p4info FILE --tests DIR [options] [TEST …] [-- PTF'S OPTIONS]",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--program", type=Path, required=True, help="BMv2 JSON, the output of p4c-bm2-ss")
    parser.add_argument("--p4info", type=Path, required=True, help="its P4Info in protobuf text format")
    parser.add_argument("--tests", type=Path, required=True, metavar="DIR", help="folder of PTF tests")
    parser.add_argument(
        "--ports", default="8", help="8: ports 0 to 7; 1-4: ports 1 to 4 (default %(default)s)"
    )
    parser.add_argument(
        "--test-params",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a further parameter of the tests; may be repeated",
    )
    parser.add_argument(
        "--cpu-port",
        type=int,
        default=DEFAULT_CPU_PORT,
        metavar="N",
        help="the controller's port (default %(default)s)",
    )
    parser.add_argument(
        "--device-id",
        type=int,
        default=0,
        metavar="N",
        help="the switch's P4Runtime id (default %(default)s)",
    )
    parser.add_argument(
        "--no-push",
        dest="push",
        action="store_false",
        help="start the switch without a program; the tests load it (they may do so in any case)",
    )
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable),
        help="the Python for which PTF and the tests' libraries are installed (default: this one)",
    )
    parser.add_argument(
        "--logs", type=Path, default=Path("ptf-logs"), metavar="DIR", help="default: %(default)s"
    )
    parser.add_argument(
        "names", nargs="*", metavar="TEST", help="a file (nat), a test (nat.Name), or ^ and one to leave out"
    )
    return parser


def read_settings(words: Sequence[str]) -> Settings:
    """The settings of a command line, all checked.

    Raises UsageError, PipelineError, PtfMissingError.
    """
    words = list(words)
    ptf_options: list[str] = []
    if "--" in words:
        at = words.index("--")
        words, ptf_options = words[:at], words[at + 1 :]
    given = arguments().parse_intermixed_args(words)
    for option, path in (("--program", given.program), ("--p4info", given.p4info)):
        if not path.is_file():
            raise UsageError(f"{option} {path}: no such file; valid: the output of p4c-bm2-ss")
    if not given.tests.is_dir():
        raise UsageError(f"--tests {given.tests}: no such folder; valid: a folder of PTF tests")
    if not any(given.tests.rglob("*.py")):
        raise UsageError(f"--tests {given.tests}: no tests; valid: a folder with .py files")
    ports = read_ports(given.ports)
    if given.cpu_port in ports:
        raise UsageError(
            f"--cpu-port {given.cpu_port} is one of --ports {given.ports}; valid: another number"
        )
    # Not resolved: a venv's Python is a link, whose folder says which packages it has.
    python = Path(os.path.abspath(given.python))  # noqa: PTH100
    ours = given.python == Path(sys.executable)
    ptf = find_ptf(python, _INSTALL if ours else f"{given.python} -m pip install ptf")
    check_program(given.program)
    read_schema(given.p4info, given.program)
    return Settings(
        program=str(given.program.resolve()),
        p4info=str(given.p4info.resolve()),
        tests=str(given.tests.resolve()),
        logs=str(given.logs.resolve()),
        python=str(python),
        ptf=str(ptf),
        ports=ports,
        device_id=given.device_id,
        cpu_port=given.cpu_port,
        push=given.push,
        test_params=dict(read_param(text) for text in given.test_params),
        names=tuple(given.names),
        ptf_options=tuple(ptf_options),
    )


def main() -> int:
    """0: no test failed; 1: one failed, or the switch ended; 2: nothing could be tested."""
    try:
        settings = read_settings(sys.argv[1:])
        find_own_program("weir-switch")
        logs = Path(settings.logs)
        logs.mkdir(parents=True, exist_ok=True)
        settings.save(logs / SETTINGS)
        code = run_in_sandbox("weir.ptf.inside", [str(logs)])
    except (UsageError, PipelineError, PtfMissingError, ToolMissingError, SandboxError, OSError) as error:
        print(f"ptf: {error}", file=sys.stderr)
        return EXIT_USAGE
    if code != 0:
        print(f"ptf: logs, frames and results: {logs}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
