# SPDX-License-Identifier: Apache-2.0
"""The `weir` command: what its words mean is here, what they do is in the modules beside."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from weir.cli import switch_options as options

# gRPC tells stderr of its own what its errors say again; read when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

if TYPE_CHECKING:
    from weir.cli.switch_args import Job

EXIT_INTERRUPTED = 130

TEACHING = """\
Police traffic in a P4 switch, report every packet it drops, and hold what end hosts infer against that.

\b
weir doctor                      what this machine lacks, how to mend it
weir run experiments/demo.yaml   results go to runs/demo/latest/
weir campaign FILE               the same over a matrix of values, repeated, resumed, on one page
weir plan x.yaml --switch HOST:9559   what would change on a running switch; apply, status, watch alike
weir losses server.pcap          what a capture says about losses
weir trace a.pcap -o a.replay    recorded traffic, for a flow that replays it
weir detect policing a.pcap      which flows are policed, at what rate and burst?
weir detect NAME a.pcap b.pcap   are two flows behind one policer?
weir report runs/demo/2*         several runs, or captures, on one page

Each command takes --json, and --help shows more. Exit codes: 0 done, 1 failed, 2 bad input, of switches 3 out
of reach, 4 another device, 5 not primary, 6 pipeline, 7 table full, 8 certificate, 9 refused, of disks 10.
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
LoadPipeline = Annotated[
    bool, typer.Option("--load-pipeline", help="Replace another pipeline; empties tables and counters.")
]
OutFile = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="What to write.")]
Captures = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Captures (pcap), compressed or not.", show_default=False),
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
def campaign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Campaign file (YAML).", show_default=False)],
    runs: Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where campaigns' folders go.")] = Path(
        "runs"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="The file's small grid.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS=LABEL,…", help="These values of an axis alone; of several axes, all."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Runs of each cell, instead of the file's number.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is to do, and how long it takes.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Runs at a time; by default what the cores carry.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of dask; its workers run.")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Make runs again that failed for good or are invalid.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Run an experiment over a matrix of values, repeated; resume it where it was, however it ended.

    Writes RUNS/<name>/<run>/ for each run, and index.html. A run counts once it is whole; runs of another
    experiment or other software are never mixed with it. Ctrl-C stops; the same command goes on.

    weir campaign experiments/wehey-bbr.yaml --only "rate=40 Mbit/s,80 Mbit/s" --repeats 200
    """
    from weir.campaign.command import campaign_command

    return campaign_command(
        file,
        runs,
        quick=quick,
        wanted=only or (),
        repeats=repeats,
        dry_run=dry_run,
        jobs=jobs,
        scheduler=scheduler,
        retry=retry,
        as_json=as_json,
        console=Console(),
    )


def _job(
    config: Path,
    phase: str | None,
    switch: str,
    device_id: int,
    election_id: int,
    tls: tuple[Path | None, Path | None, Path | None],
    compiled: Path | None,
) -> Job:
    from weir.cli.switch_args import Tls, Where, job_of

    return job_of(config, phase, Where(switch, device_id, election_id, Tls(*tls)), compiled)


@app.command()
def plan(
    config: options.Experiment,
    switch: options.Switch = options.DEFAULT_SWITCH,
    device_id: options.DeviceId = 1,
    phase: options.PhaseName = None,
    compiled: options.Compiled = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    as_json: AsJson = False,
) -> int:
    """Show what differs between an experiment and a running switch; nothing is changed.

    Also shows each policer's rate and burst as the target makes them, with a warning above 1 %.
    """
    from weir.cli.apply import plan_command

    job = _job(config, phase, switch, device_id, 1, (tls_ca, tls_cert, tls_key), compiled)
    return plan_command(job, as_json=as_json, console=Console())


@app.command()
def apply(
    config: options.Experiment,
    switch: options.Switch = options.DEFAULT_SWITCH,
    device_id: options.DeviceId = 1,
    election_id: options.ElectionId = options.PRIMARY_ID,
    phase: options.PhaseName = None,
    load_pipeline: LoadPipeline = False,
    thrift_port: options.ThriftPort = None,
    compiled: options.Compiled = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    as_json: AsJson = False,
) -> int:
    """Make a running switch what an experiment says: write what differs, and read it back.

    A second apply changes nothing. Where the switch can, all of it happens between two packets; else in an
    order that leaves no traffic unpoliced. What fails half-way says how far it came.
    """
    from weir.cli.apply import apply_command

    job = _job(config, phase, switch, device_id, election_id, (tls_ca, tls_cert, tls_key), compiled)
    return apply_command(
        job, load_pipeline=load_pipeline, thrift_port=thrift_port, as_json=as_json, console=Console()
    )


@app.command()
def status(
    config: options.Experiment,
    switch: options.Switch = options.DEFAULT_SWITCH,
    device_id: options.DeviceId = 1,
    phase: options.PhaseName = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C.")] = False,
    interval_s: Annotated[float, typer.Option("--interval", min=0.1, help="Seconds between readings.")] = 1.0,
    compiled: options.Compiled = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    as_json: AsJson = False,
) -> int:
    """Show tables, meters and counters of a running switch; with --watch live, with rates."""
    from weir.cli.status import status_command

    job = _job(config, phase, switch, device_id, 1, (tls_ca, tls_cert, tls_key), compiled)
    return status_command(job, watch=watch, interval_s=interval_s, as_json=as_json, console=Console())


@app.command()
def watch(
    config: options.Experiment,
    switch: options.Switch = options.DEFAULT_SWITCH,
    device_id: options.DeviceId = 1,
    election_id: Annotated[
        int | None,
        typer.Option(min=1, help="No two controllers have the same; by default 2, and 1 of a backup."),
    ] = None,
    phase: options.PhaseName = None,
    backup: Annotated[
        bool, typer.Option("--backup", help="Wait until no other controller is there.")
    ] = False,
    load_pipeline: LoadPipeline = False,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append each event to this file, a JSON object a line."),
    ] = None,
    thrift_port: options.ThriftPort = None,
    compiled: options.Compiled = None,
    tls_ca: options.TlsCa = None,
    tls_cert: options.TlsCert = None,
    tls_key: options.TlsKey = None,
    as_json: AsJson = False,
) -> int:
    """Keep a running switch as an experiment says, until Ctrl-C.

    Connects again and configures anew after the switch was gone, gives learned flows their buckets, and says
    when counters began anew. With --backup it takes over, without touching the tables, when the primary dies.
    """
    from weir.cli.watch import watch_command

    election_id = election_id or (options.BACKUP_ID if backup else options.PRIMARY_ID)
    job = _job(config, phase, switch, device_id, election_id, (tls_ca, tls_cert, tls_key), compiled)
    return watch_command(
        job,
        backup=backup,
        load_pipeline=load_pipeline,
        log=log,
        thrift_port=thrift_port,
        as_json=as_json,
        console=Console(),
    )


@app.command()
def stratum(
    config: options.Experiment,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the files go.")],
    compiled: options.Compiled = None,
    panel: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST=PORT[/CHANNEL]", help="Front-panel port of a host; give all or none."),
    ] = None,
    speed: Annotated[str, typer.Option(help="Speed of these ports.")] = "100 Gbit/s",
    as_json: AsJson = False,
) -> int:
    """Write what a Tofino under Stratum needs for an experiment: its chassis and pipeline configuration.

    The chassis configuration has the hosts' shaped queues, and with --panel the ports. The pipeline's is made
    of the compiler's output.
    """
    from weir.cli.stratum import stratum_command

    return stratum_command(
        config,
        out,
        compiled=compiled,
        panels=panel or [],
        speed=speed,
        as_json=as_json,
        console=Console(),
    )


@app.command()
def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…", help="Run directories, such as runs/demo/latest, or captures.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the page goes; by default report/ beside the runs."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Analyse one run again and rebuild its report.html, or set several runs or captures side by side.

    Several, or captures (compressed or not), make DIR/index.html: loss, delay, correlation, throughput,
    fairness and retransmissions by scenario, tests, verdicts; figures also as SVG (needs Chromium) and CSV.
    """
    from weir.cli.report import report_command

    return report_command(paths, out, as_json=as_json, console=Console())


@app.command()
def losses(captures: Captures, as_json: AsJson = False) -> int:
    """List the packets that TCP senders lost, as their captures show it.

    Each retransmission is attributed to the transmission that was lost; spurious ones (DSACK, timestamps) are
    told apart. One pass, bounded memory.
    """
    from weir.cli.losses import losses_command

    return losses_command(captures, as_json=as_json, console=Console())


@app.command()
def trace(
    captures: Captures,
    out: OutFile,
    flow: Annotated[
        str | None,
        typer.Option("--flow", metavar="SRC:PORT-DST:PORT", help="A connection; by default the largest."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Make a replay file of recorded traffic: what both ends of a connection sent, and when.

    A flow of an experiment plays it with `replay: FILE`. Of TCP each end sends once what it waited for has
    arrived, spaced as recorded; of several captures, one connection each, one after the other. Of UDP (the
    flow then needs `protocol: udp`) each datagram goes when it was seen.
    """
    from weir.trace.command import trace_command

    return trace_command(captures, out, flow=flow, as_json=as_json, console=Console())


@app.command()
def detect(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Detector; none lists them.", show_default=False)
    ] = None,
    captures: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE…", help="Captures (pcap, compressed or not).", show_default=False),
    ] = None,
    flows: Annotated[
        list[str] | None,
        typer.Option("--flow", metavar="SRC:PORT-DST:PORT", help="A flow by name; for pairs give both."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Ask a detector whether flows are policed, or whether two are behind one policer.

    `policing` looks at every flow of each capture, alone and together with the others; captures may be of
    the sender, of the receiver or of the way between. Detectors of pairs compare two flows: the largest of
    each of two captures, or the two largest of one.
    """
    from weir.cli.detect import detect_command

    return detect_command(name, captures or [], flows or [], as_json=as_json, console=Console())


@app.command()
def evaluate(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN…]", help="Finished runs; none: simulated scenarios.", show_default=False
        ),
    ] = None,
    detectors: Annotated[
        list[str] | None, typer.Option("--detector", metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    scenarios: Annotated[
        list[str] | None, typer.Option("--scenario", metavar="NAME", help="Only this one; may be repeated.")
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, help="Draws of each scenario.")] = 20,
    seconds: Annotated[float, typer.Option("--seconds", min=2, help="Length of each simulated run.")] = 20.0,
    seed: Annotated[int, typer.Option("--seed", help="First seed; validate from 1000 on.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also write a page with figures, SVG and CSV.")
    ] = None,
    policing: Annotated[
        bool, typer.Option("--policing", help="Detectors of policing instead, of single flows.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Count how often detectors are right where the truth is known.

    Over the results of runs (with --detector, over their captures), or over simulated flows that share a
    policer, a queue or nothing: false negatives and positives with exact intervals, area under the ROC curve,
    p-values where nothing is shared. With --policing, over the flows in the captures of runs, or over
    simulated ones: wrong verdicts, and how near rate and burst of the policer are.
    """
    from weir.cli.evaluate import evaluate_command

    return evaluate_command(
        directories or [],
        detectors or [],
        scenarios or [],
        runs=runs,
        seconds=seconds,
        seed=seed,
        out=out,
        policing=policing,
        as_json=as_json,
        console=Console(),
    )


@app.command()
def topology(
    config: options.Experiment,
    out: OutFile,
    cell: Annotated[list[str] | None, typer.Option(metavar="AXIS=LABEL", help="Of a campaign.")] = None,
    as_json: AsJson = False,
) -> int:
    """Draw an experiment: hosts, delays, queues, policers, and who sends what through them."""
    from weir.topology.command import topology_command

    return topology_command(config, out, cell=cell or [], as_json=as_json, console=Console())


@app.command()
def schema(
    campaigns: Annotated[bool, typer.Option("--campaign", help="Of campaign files instead.")] = False,
    as_json: AsJson = False,
) -> int:
    """Print the JSON Schema of experiment files, for editors and programs (JSON with or without --json)."""
    if campaigns:
        from weir.campaign.config import campaign_schema_text

        sys.stdout.write(campaign_schema_text())
        return 0
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
        # It knows the errors of every part, and loading them takes longer than most commands.
        from weir.cli.errors import report_error

        return report_error(error)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the `weir` program."""
    sys.exit(run_cli(sys.argv[1:]))
