# SPDX-License-Identifier: Apache-2.0
"""The `weir` command: what its words mean is here, what they do is in the modules beside."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from weir.cli.errors import EXIT_INTERRUPTED, report_error

TEACHING = """\
Police traffic in a P4 switch, report every packet it drops, and hold what end hosts infer against that.

\b
weir doctor                      what this machine lacks, how to mend it
weir run experiments/demo.yaml   results go to runs/demo/latest/
weir losses server.pcap          what a capture says about losses
weir detect NAME a.pcap b.pcap   are two flows behind one policer?

Each command takes --json, and --help shows more. Exit codes: 0 done, 1 failed, 2 bad input.
"""

app = typer.Typer(
    name="weir",
    help=TEACHING,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Captures = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Captures (pcap) taken at the senders.", show_default=False),
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"weir {importlib.metadata.version('weir')}")
        raise typer.Exit


@app.callback()
def _weir(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    pass


@app.command()
def doctor(as_json: AsJson = False) -> int:
    """Check what this machine can and cannot do, each with the command that mends it.

    Tries namespaces, interfaces, packet sockets and congestion controls for real. Exit code 1 when something
    that a run needs is missing.
    """
    from weir.cli.doctor import doctor_command

    return doctor_command(as_json=as_json, console=Console())


@app.command()
def run(
    config: Annotated[
        Path, typer.Argument(metavar="EXPERIMENT", help="Experiment file (YAML).", show_default=False)
    ],
    runs: Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where run directories go.")] = Path(
        "runs"
    ),
    as_json: AsJson = False,
) -> int:
    """Run an experiment: hosts, switch, traffic, captures, and the analysis of it all.

    Needs no root. Writes RUNS/<name>/<run-id>/ with config, captures, telemetry, result.json and report.html;
    RUNS/<name>/latest points to it. Ctrl-C stops cleanly; the manifest then says that the run did not finish.

    Start from experiments/demo.yaml; `weir schema` describes every key.
    """
    from weir.cli.run import run_command

    return run_command(config, runs, as_json=as_json)


@app.command()
def report(
    run_dir: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="A run directory, such as runs/demo/latest.", show_default=False),
    ],
    as_json: AsJson = False,
) -> int:
    """Analyse a finished run again and rebuild its result.json and report.html."""
    from weir.cli.report import report_command

    return report_command(run_dir, as_json=as_json, console=Console())


@app.command()
def losses(captures: Captures, as_json: AsJson = False) -> int:
    """List the packets that TCP senders lost, as their captures show it.

    Each retransmission is attributed to the transmission that was lost; spurious ones (DSACK, timestamps) are
    told apart. One pass, bounded memory.
    """
    from weir.cli.losses import losses_command

    return losses_command(captures, as_json=as_json, console=Console())


@app.command()
def detect(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Detector; a wrong name lists them.", show_default=False)
    ],
    captures: Captures,
    flows: Annotated[
        list[str] | None,
        typer.Option("--flow", metavar="SRC:PORT-DST:PORT", help="A flow by name; give both or neither."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Ask a detector whether two flows are behind one policer.

    Give two captures, one per flow, or one capture that holds both: the largest flow of each file, or the two
    largest of the one, are compared.
    """
    from weir.cli.losses import detect_command

    return detect_command(name, captures, flows or [], as_json=as_json, console=Console())


@app.command()
def schema(as_json: AsJson = False) -> int:
    """Print the JSON Schema of experiment files, for editors and programs (JSON with or without --json)."""
    from weir.controlplane.config import schema_text

    sys.stdout.write(schema_text())
    return 0


def run_cli(arguments: Sequence[str]) -> int:
    """Run the command line `arguments`; returns the exit code. Errors become `weir:` lines on stderr."""
    try:
        code = app(args=list(arguments), prog_name="weir", standalone_mode=False)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`weir losses … | head`); point stdout away from its closed pipe.
        sys.stdout = open("/dev/null", "w")  # noqa: PTH123, SIM115
        return 1
    except Exception as error:
        return report_error(error)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the `weir` program."""
    sys.exit(run_cli(sys.argv[1:]))
