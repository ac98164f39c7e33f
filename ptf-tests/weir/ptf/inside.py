# SPDX-License-Identifier: Apache-2.0
"""The sandbox's program: links, weir-switch, PTF, and the results. Started by __main__.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from weir.controlplane.errors import ControlPlaneError
from weir.controlplane.pipeline import read_schema
from weir.controlplane.session import bypass_proxy
from weir.ptf.links import make_links
from weir.ptf.program import PtfRun
from weir.ptf.results import JUNIT, RECORD, read_record, summary, write_junit
from weir.ptf.settings import EXIT_FAILED, EXIT_USAGE, SETTINGS, Settings
from weir.ptf.switch import push, weir_switch
from weir.topo.process import ProcessError
from weir.topo.sandbox import inside
from weir.topo.stop import StopToken
from weir.topo.tools import ToolMissingError

_MESSAGES = "weir.ptf.messages"
"""By its name: imported here, it would replace modules of this process."""


def main(stop: StopToken) -> int:
    """Run the tests; 0 when none failed."""
    logs = Path(sys.argv[1])
    settings = Settings.load(logs / SETTINGS)
    try:
        return _run(settings, logs, stop)
    except (ControlPlaneError, ToolMissingError) as error:
        print(f"ptf: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ProcessError as error:
        print(f"ptf: {error}", file=sys.stderr)
        return EXIT_FAILED


def _run(settings: Settings, logs: Path, stop: StopToken) -> int:
    ports = make_links(settings.ports)
    with weir_switch(ports, logs, stop, settings.device_id, settings.cpu_port) as address:
        bypass_proxy(address)  # for the tests' gRPC, which inherits the environment
        if settings.push:
            push(address, settings.device_id, read_schema(Path(settings.p4info), Path(settings.program)))
        tests = PtfRun(
            Path(settings.python),
            Path(settings.ptf),
            Path(settings.tests),
            ports,
            settings.params(address),
            logs,
            settings.names,
            settings.ptf_options,
            modules=(_MESSAGES,) if _in_this_python(settings) else (),
        )
        code = tests.run(_environment(settings), stop)
        outcomes = read_record(logs / RECORD)
        write_junit(outcomes, logs / JUNIT)
    if not outcomes:
        print(
            f"ptf: no test ran; PTF's messages above say why: no test in {settings.tests} matched, or a file "
            "there cannot be imported; valid: subclasses of unittest.TestCase with a method runTest",
            file=sys.stderr,
        )
        return EXIT_USAGE
    print("\n" + "\n".join(summary(outcomes)), flush=True)
    failed = code != 0 or any(outcome.failed for outcome in outcomes)
    return EXIT_FAILED if failed else 0


def _in_this_python(settings: Settings) -> bool:
    """Whether the tests run in the Python that has weir. Another one need not have it."""
    return settings.python == sys.executable


def _environment(settings: Settings) -> dict[str, str]:
    """Further variables for the tests."""
    if not _in_this_python(settings):
        return {}
    # Tests may bring modules generated for protobuf < 3.20. Of the protobuf that weir needs, only the pure
    # Python implementation still loads such ones.
    name = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
    return {name: os.environ.get(name, "python")}


if __name__ == "__main__":
    inside(main)
