# SPDX-License-Identifier: Apache-2.0
"""The `weir` command with its subcommands, one module each. They import heavy modules only when called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from weir.cli import (
    apply,
    bmv2,
    campaign,
    campaign_compare,
    classifier,
    demo,
    detect,
    digest,
    doctor,
    evaluate,
    export,
    import_,
    kernel,
    losses,
    plan,
    report,
    run,
    schema,
    status,
    stratum,
    topology,
    trace,
    watch,
)
from weir.cli.errors import EXIT_INTERRUPTED
from weir.cli.filled_help import Commands, filled
from weir.rundir.outputs import STANDARD_OUTPUT, name_standard_output, print_any_character
from weir.rundir.without_pandas import hide_pandas

if TYPE_CHECKING:
    from typer._click.core import Command, Context

# gRPC's log on stderr only repeats its exceptions. It reads the variable when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

TEACHING = """\
Police traffic in a P4 switch, report every packet it drops, and hold what end hosts infer against that.

\b
weir doctor                        what this machine lacks, and how to mend it
weir run demo, or your FILE        an experiment; results in runs/demo/latest
weir campaign FILE                 a matrix of experiments, repeated: one page
weir campaign compare A B          in what the results of two campaigns differ
weir plan FILE --switch HOST:9559  what weir would change on a switch
weir losses server.pcap            what a capture says about losses
weir trace a.pcap -o a.replay      recorded traffic, for flows that replay it
weir detect policing a.pcap        which flows are policed, and at what rate
weir detect shared a.pcap b.pcap   are two flows behind one policer?
weir report runs/demo/2*           several runs, or captures, on one page
weir export runs/demo/latest       an archive of runs, for weir import

Each command takes --json, and --help shows more. Exit codes: 0 done, 1 failed, 2 bad input, of switches 3 out
of reach, 4 another device, 5 not primary, 6 pipeline, 7 table full, 8 certificate, 9 refused, of disks 10.
"""


class _TwoWordNames(TyperGroup):
    """The commands; the name of one may be two words, such as `campaign compare` beside `campaign FILE`."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """The command that the arguments begin with, and its arguments."""
        two_words = " ".join(args[:2])
        if len(args) > 1 and two_words in self.commands:
            return two_words, self.commands[two_words], args[2:]
        return super().resolve_command(ctx, args)


app = Commands(
    name="weir",
    cls=_TwoWordNames,
    help=filled(TEACHING),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from weir.rundir.software import weir_version

        print(f"weir {weir_version()}")
        raise typer.Exit


def _man(wanted: bool) -> None:
    if wanted:
        from weir.cli.manual import man_page
        from weir.rundir.software import weir_version

        sys.stdout.write(man_page(app, weir_version()))
        raise typer.Exit


@app.callback()
def _weir(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    man: Annotated[
        bool,
        typer.Option("--man", help="Print the man page: weir --man | man -l -", callback=_man, is_eager=True),
    ] = False,
) -> None:
    pass


for _command in (
    doctor.doctor,
    demo.demo,
    run.run,
    campaign.campaign,
    campaign_compare.campaign_compare,
    plan.plan,
    apply.apply,
    status.status,
    watch.watch,
    stratum.stratum,
    report.report,
    digest.digest,
    export.export,
    import_.import_,
    losses.losses,
    trace.trace,
    detect.detect,
    evaluate.evaluate,
    topology.topology,
    schema.schema,
):
    # import is a keyword of Python, and campaign_compare the command `campaign compare`.
    app.command(_command.__name__.removesuffix("_").replace("_", " "))(_command)
app.add_typer(kernel.app)
app.add_typer(classifier.app)
app.add_typer(bmv2.app)


def run_cli(arguments: Sequence[str]) -> int:
    """Run the command line `arguments`; returns the exit code. Errors become `weir:` lines on stderr."""
    try:
        code = app(args=list(arguments), prog_name="weir", standalone_mode=False)
        sys.stdout.flush()  # while its error is a line and an exit code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has exited (`weir losses … | head`).
        _drop_output()
        return 1
    except Exception as error:
        # Imported here: it imports every package that defines errors, which is slower than most commands.
        from weir.cli.failures import report_error

        if isinstance(error, OSError) and error.filename == STANDARD_OUTPUT:
            _drop_output()
        return report_error(error)
    return code if isinstance(code, int) else 0


def _drop_output() -> None:
    """Drop what is not printed yet: the flush at exit must not fail again."""
    sys.stdout = open("/dev/null", "w")  # noqa: PTH123, SIM115


def main() -> None:
    """Run the command line of this process, and exit with its code."""
    print_any_character()
    name_standard_output()
    hide_pandas()
    sys.exit(run_cli(sys.argv[1:]))
