# SPDX-License-Identifier: Apache-2.0
"""The command ``python -m weir.softswitch``: runs captures through a P4 program with given entries."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from google.protobuf import text_format

from weir.rundir.plural import plural
from weir.softswitch.errors import RequestRefusedError
from weir.softswitch.replay import Replay, read_p4info, read_writes, replay
from weir.softswitch.switch import CPU_PORT, DROP_PORT, VirtualSwitch
from weir.telemetry.captures import write_pcap

HELP = """\
Run captures through a P4 program in virtual time: as fast as the machine can, with the times of the captures.

The same input and seed give the same output, byte by byte and nanosecond by nanosecond. The earliest frame
arrives at the switch's time 0; the output's time stamps are on the clock of the input.

\b
python -m weir.softswitch --json weir.json --p4info weir.p4info.txtpb \\
    --entries writes.txtpb --in 1=client.pcap --in 2=server.pcap \\
    --out 1=to-client.pcap --out 2=to-server.pcap \\
    --port 2=rate=10Mbit/s,limit=64kB,delay=20ms

\b
Entries are P4Runtime WriteRequests, for example:
    updates { type: MODIFY entity { meter_entry {
        meter_id: 337588403 index { index: 7 }
        config { cir: 125000 cburst: 15000 pir: 125000 pburst: 15000 } } } }

Exit codes: 0 done, 1 the switch refused something, 2 bad input.
"""

EXIT_REFUSED = 1
EXIT_BAD_INPUT = 2

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _by_port(option: str, values: Sequence[str], example: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for value in values:
        number, separator, rest = value.partition("=")
        if not (separator and rest and number.isdecimal()):
            raise ValueError(f"{option} {value}: valid: PORT={example}, such as 1={example}")
        if int(number) in found:
            raise ValueError(f"{option} {value}: port {number} is given twice; valid: each port once")
        found[int(number)] = rest
    return found


@app.command(help=HELP)
def _run(
    program: Annotated[
        Path, typer.Option("--json", metavar="FILE", help="The program, as p4c-bm2-ss writes it.")
    ],
    p4info: Annotated[
        Path, typer.Option("--p4info", metavar="FILE", help="Its P4Info, text (.txtpb) or binary.")
    ],
    inputs: Annotated[
        list[str], typer.Option("--in", metavar="PORT=PCAP", help="What arrives at a port; may be repeated.")
    ],
    outputs: Annotated[
        list[str] | None,
        typer.Option("--out", metavar="PORT=PCAP", help="Where what leaves a port goes; may be repeated."),
    ] = None,
    entries: Annotated[
        list[Path] | None,
        typer.Option(
            "--entries",
            metavar="FILE",
            help="WriteRequest to carry out before, text (.txtpb) or binary; may be repeated.",
        ),
    ] = None,
    links: Annotated[
        list[str] | None,
        typer.Option(
            "--port",
            metavar="PORT=OPTIONS",
            help="What happens to frames that leave through a port, as of `weir-switch --port`. "
            "Ports of --in and --out are there without it.",
        ),
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option("--messages", metavar="FILE", help="Packet-ins and digests, as text, go to this file."),
    ] = None,
    stats: Annotated[
        Path | None, typer.Option("--stats", metavar="FILE", help="The switch's counters, as JSON, go here.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the program's random numbers.")] = 1,
    linger_s: Annotated[
        int,
        typer.Option("--linger", min=0, metavar="SECONDS", help="Most virtual time after the last frame."),
    ] = 60,
    cpu_port: Annotated[int, typer.Option("--cpu-port", help="Frames sent there are packet-ins.")] = CPU_PORT,
    drop_port: Annotated[int, typer.Option("--drop-port", help='The number that means "drop".')] = DROP_PORT,
) -> None:
    incoming = {port: Path(name) for port, name in _by_port("--in", inputs, "FILE.pcap").items()}
    outgoing = {port: Path(name) for port, name in _by_port("--out", outputs or [], "FILE.pcap").items()}
    options = _by_port("--port", links or [], "rate=10Mbit/s")
    ports = {port: options.get(port, "") for port in sorted({*incoming, *outgoing, *options})}
    switch = VirtualSwitch(ports, seed=seed, cpu_port=cpu_port, drop_port=drop_port)
    switch.set_pipeline(read_p4info(p4info), program.read_bytes())
    for path in entries or []:
        switch.write(read_writes(path, switch.device_id))
    result = replay(switch, incoming, linger_s * 1_000_000_000)
    for port, path in outgoing.items():
        write_pcap(path, result.sent.get(port, []))
    if messages is not None:
        texts = (
            f"# {message.time_ns} ns\n{text_format.MessageToString(message.message)}"
            for message in result.messages
        )
        messages.write_text("".join(texts), encoding="utf-8")
    counted = {**switch.stats(), "ports": {port: switch.port_stats(port) for port in ports}}
    if stats is not None:
        stats.write_text(json.dumps(counted, indent=2) + "\n", encoding="utf-8")
    _print(result, outgoing)


def _print(result: Replay, outgoing: dict[int, Path]) -> None:
    print(f"{plural(result.received, 'frame')} arrived")
    for port, sent in sorted(result.sent.items()):
        where = f" ({outgoing[port]})" if port in outgoing else ", not written: no --out for it"
        print(f"{plural(len(sent), 'frame')} left port {port}{where}")
    print(f"{plural(len(result.messages), 'message')} for the controller")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; prints errors that a user can fix, and returns the exit code."""
    try:
        code = app(args=arguments, prog_name="python -m weir.softswitch", standalone_mode=False)
    except typer.TyperException as error:
        print(f"weir.softswitch: {error.format_message()} (--help shows what is valid)", file=sys.stderr)
        return EXIT_BAD_INPUT
    except RequestRefusedError as error:
        print(f"weir.softswitch: the switch refused it: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except (ValueError, OSError) as error:
        print(f"weir.softswitch: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
